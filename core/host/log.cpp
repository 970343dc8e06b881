#include "host/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <weft/host.h>

#include <memory>
#include <string>
#include <vector>

#include "base/environment.hpp"
#include "base/text.hpp"

namespace weft::host {
namespace {

spdlog::level::level_enum shown_level() {
  const std::string wanted = environment("WEFT_LOG").value_or("info");
  if (wanted == "debug") return spdlog::level::debug;
  if (wanted == "info") return spdlog::level::info;
  if (wanted == "warning") return spdlog::level::warn;
  if (wanted == "error") return spdlog::level::err;
  if (wanted == "off") return spdlog::level::off;
  const std::vector<std::string> levels = {"debug", "info", "warning", "error", "off"};
  fail(WEFT_INVALID_ARGUMENT, "environment variable WEFT_LOG is \"{}\", but must be one of {}{}",
       printable(wanted), fmt::join(levels, ", "), did_you_mean(wanted, levels));
}

struct Log {
  Log() : logger("weft", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger.set_pattern("%v");
    logger.flush_on(spdlog::level::debug);
    if (const auto number = environment("RANK")) rank = fmt::format("[rank {}] ", printable(*number, 12));
    try {
      logger.set_level(shown_level());
    } catch (const Error& error) {
      // A program that has made no runtime may log, too.
      logger.warn("{}warning: {}; this log shows info", rank, error.what());
    }
  }
  spdlog::logger logger;
  std::string rank;
};

}  // namespace

void check_log_level() {
  shown_level();
}

void log(uint32_t level, std::string_view who, std::string_view text) noexcept {
  try {
    static Log* log = new Log;  // never destroyed: threads of plugins may outlive static objects
    const char* word = level >= WEFT_LOG_ERROR ? "error: " : level == WEFT_LOG_WARNING ? "warning: " : "";
    const auto severity = level >= WEFT_LOG_ERROR     ? spdlog::level::err
                          : level == WEFT_LOG_WARNING ? spdlog::level::warn
                          : level == WEFT_LOG_INFO    ? spdlog::level::info
                                                      : spdlog::level::debug;
    log->logger.log(severity, "{}{}{}{}{}", log->rank, word, who, who.empty() ? "" : ": ", text);
  } catch (...) {
    // There is nowhere left to say it.
  }
}

}  // namespace weft::host
