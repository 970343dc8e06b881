// `weft plugins validate`: loads a plugin in a child process, which it may crash, end or hold up, and prints
// what the child finds out.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <vector>

#include "base/descriptor.hpp"
#include "base/environment.hpp"
#include "base/error_sink.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "engine_verb.hpp"
#include "host/command.h"
#include "host/loading.h"
#include "host/signals.h"
#include "option_words.hpp"
#include "verbs.hpp"

namespace weft::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Flags {
  std::string file;
  std::vector<std::string> options;  // KEY=VALUE
  std::string model, data;
  double timeout = 60;
  bool as_json = false;
  bool interface_only = false;
};

void write_line(int fd, const json& event) {
  write_all(fd, event.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

// What the child does: checks the interface of every library and then, of those that passed, what plugins of
// their kinds must do.
class Child {
 public:
  Child(const Flags& flags, int events) : flags_(flags), events_(events) {}

  void run() try {
    ErrorSink error;
    error.check(weft_plugins_validate(
        borrow(flags_.file),
        [](void* child, weft_str event) { static_cast<Child*>(child)->take(view(event)); }, this, error));
    for (const json& library : flags_.interface_only ? std::vector<json>() : passed_) run_suite(library);
    write_line(events_, {{"end", true}});
  } catch (const Error& error) {
    write_line(events_, {{"error", {{"status", error.status()}, {"text", error.what()}}}});
  }

 private:
  void take(std::string_view text) {
    const json event = json::parse(text);
    write_line(events_, event);
    if (event.contains("library")) passed_.push_back(event.at("library"));
    if (event.contains("check") && !event.at("check").at("passed").get<bool>() && !passed_.empty() &&
        passed_.back().value("good", true))
      passed_.back()["good"] = false;
  }

  void run_suite(const json& library) {
    if (!library.value("good", true)) return;
    write_line(events_, {{"again", library}});
    const std::string arguments = json({{"library", library},
                                        {"options", flags_.options},
                                        {"model", flags_.model},
                                        {"data", flags_.data},
                                        {"events", events_}})
                                      .dump();
    int32_t code = 0;
    ErrorSink error;
    error.check(weft_command(WEFT_STR("plugins validate"), borrow(arguments), &code, error));
  }

  const Flags& flags_;
  const int events_;
  std::vector<json> passed_;  // the libraries; "good" is false for those that failed a check
};

// What the parent makes of the child's events.
class Report {
 public:
  explicit Report(bool as_json) : as_json_(as_json) {}

  void take(const json& event) {
    if (event.contains("warnings")) warnings_ = event.at("warnings");
    if (event.contains("library")) begin(event.at("library"));
    if (event.contains("again")) return to(event.at("again").at("file"));
    if (event.contains("check")) add(event.at("check"));
    if (event.contains("error")) error_ = event.at("error");
    if (event.contains("end")) ended_ = true;
  }
  void add_failure(const std::string& name, const std::string& text) {
    add({{"name", name}, {"passed", false}, {"text", text}});
  }
  bool ended() const { return ended_; }
  bool has_library() const { return !libraries_.empty(); }
  const std::optional<json>& error() const { return error_; }
  int num_failed() const { return num_failed_; }
  // Returns the plugin whose library was being checked: "gamma 1.0.0 (strategy)".
  std::string plugin() const {
    const json& library = libraries_.at(place_);
    return fmt::format("{} {} ({})", text_at(library, "id"), text_at(library, "version"),
                       text_at(library, "kind"));
  }

  void finish() const {
    if (as_json_)
      std::printf("%s\n", json({{"libraries", libraries_},
                                {"warnings", warnings_},
                                {"passed", num_failed_ == 0},
                                {"num_passed", num_passed_},
                                {"num_failed", num_failed_}})
                              .dump(2)
                              .c_str());
    else
      std::printf("%d passed, %d failed\n", num_passed_, num_failed_);
    std::fflush(stdout);
  }

 private:
  static std::string text_at(const json& entry, const char* key) {
    return printable(entry.value(key, std::string()), 4000);
  }
  void begin(json library) {
    library["checks"] = json::array();
    library.erase("root");
    libraries_.push_back(std::move(library));
    place_ = libraries_.size() - 1;
    if (!as_json_) std::printf("%s: %s\n", plugin().c_str(), text_at(libraries_[place_], "file").c_str());
    std::fflush(stdout);
  }
  void to(const std::string& file) {
    for (size_t i = 0; i < libraries_.size(); ++i)
      if (libraries_[i].at("file") == file) place_ = i;
    if (!as_json_ && libraries_.size() > 1) std::printf("%s\n", plugin().c_str());
  }
  void add(const json& check) {
    const bool passed = check.at("passed").get<bool>();
    ++(passed ? num_passed_ : num_failed_);
    libraries_.at(place_)["checks"].push_back(check);
    if (as_json_) return;
    const std::string text = text_at(check, "text");
    std::printf("  %-6s %s%s%s\n", passed ? "passed" : "FAILED", text_at(check, "name").c_str(),
                text.empty() ? "" : ": ", text.c_str());
    std::fflush(stdout);
  }

  const bool as_json_;
  json warnings_ = json::array();
  std::vector<json> libraries_;
  size_t place_ = 0;
  std::optional<json> error_;
  bool ended_ = false;
  int num_passed_ = 0, num_failed_ = 0;
};

// Gives the report the events until the child has told the last one, closes its end, or the time is up.
void read_events(int fd, Clock::time_point deadline, Report& report) {
  std::string text;
  char buffer[4096];
  while (!report.ended() && !report.error()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return;
    pollfd waiting = {fd, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 60'000))) <= 0) continue;
    const ssize_t size = read(fd, buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    text.append(buffer, static_cast<size_t>(size));
    for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
      report.take(parse_json(text.substr(0, end), "an event of the child"));
  }
}

// Waits until the child has ended, or kills it when the time is up. Returns its status, or nothing.
std::optional<int> wait_for(pid_t child, Clock::time_point deadline) {
  int status = 0;
  while (Clock::now() < deadline) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    usleep(5'000);
  }
  kill(child, SIGKILL);
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return std::nullopt;
}

std::string describe_end(const Flags& flags, const std::optional<int>& status) {
  if (!status)
    return fmt::format(
        "its code still ran after {} s (--timeout), and was ended; a function of it loops or waits",
        flags.timeout);
  if (WIFSIGNALED(*status))
    return fmt::format(
        "{} ended the process that loaded it ({}): the file is damaged, or its code fails; build "
        "it again",
        printable(flags.file), signal_name(WTERMSIG(*status)));
  return fmt::format(
      "{} ended the process that loaded it by exit() before the checks were done; a plugin returns "
      "an error instead",
      printable(flags.file));
}

void validate(const Flags& flags) {
  const std::chrono::milliseconds time = milliseconds("--timeout", flags.timeout);
  for (const std::string& word : flags.options) require_utf8("-o", word);
  require_utf8("--model", flags.model);
  require_utf8("--data", flags.data);
  if (flags.interface_only && (!flags.options.empty() || !flags.model.empty() || !flags.data.empty()))
    throw UsageError(fmt::format("{} is given, but --interface-only leaves out the checks that need it",
                                 !flags.options.empty() ? "-o"
                                 : flags.data.empty()   ? "--model"
                                                        : "--data"));
  weft_signals_end();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    fail(WEFT_RESOURCE_EXHAUSTED, "cannot make a pipe: {}", std::strerror(errno));
  Descriptor read_end(ends[0]), write_end(ends[1]);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) fail(WEFT_RESOURCE_EXHAUSTED, "cannot start a process: {}", std::strerror(errno));
  if (child == 0) {
    read_end.reset();
    set_environment_default("WEFT_LOG", "warning");
    weft_limit_loading(time.count());
    Child(flags, write_end.get()).run();
    throw Exit{0};
  }
  write_end.reset();
  const Clock::time_point deadline = Clock::now() + time;
  Report report(flags.as_json);
  read_events(read_end.get(), deadline, report);
  const bool is_told = report.ended() || report.error();
  const std::optional<int> status = wait_for(child, deadline);
  const bool ended_well = is_told && status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
  if (!report.has_library()) {
    if (report.error())
      throw Error(report.error()->at("status").get<weft_status>(),
                  report.error()->at("text").get<std::string>());
    fail(WEFT_DATA_LOSS, "{}", describe_end(flags, status));
  }
  if (report.error()) report.add_failure("can be checked", report.error()->at("text").get<std::string>());
  if (!ended_well) report.add_failure("returns to the host", describe_end(flags, status));
  report.finish();
  if (report.num_failed() == 0) return;
  fail(WEFT_FAILED_PRECONDITION, "{}: {}", report.plugin(),
       ended_well ? flags.file + " breaks the rules for plugins; the failed checks are above"
                  : describe_end(flags, status));
}

}  // namespace

void add_validate(CLI::App& plugins) {
  CLI::App* const verb =
      plugins.add_subcommand("validate", "Load a plugin and check it against the rules for plugins");
  const auto flags = std::make_shared<Flags>();
  verb->add_flag("--json", flags->as_json, "Print JSON");
  verb->add_flag(
      "--interface-only", flags->interface_only,
      "Check how the library is built and how its tables behave, and not what plugins of its kind must do");
  verb->add_option("-o,--option", flags->options,
                   "Option of the plugin, as KEY=VALUE; may be given several times")
      ->allow_extra_args(false);
  verb->add_option(
      "--model", flags->model,
      "A config.json whose model is made small and run, for policies and models (default: the family of "
      "its name); for a tokenizer, a folder with its files");
  verb->add_option(
      "--data", flags->data,
      "Data for the checks of a data set, or of an objective that needs fields which models do not have");
  verb->add_option("--timeout", flags->timeout, "Seconds after which the checks have failed; default: 60");
  verb->add_option("FILE", flags->file, "Library of a plugin, its folder, or its plugin.json")->required();
  verb->footer(
      "The last line is `N passed, N failed`.\n"
      "Example: weft plugins validate build/lib/weft/0/plugins/my_plugin/1.0.0/my_plugin_strategy.so");
  verb->callback([flags] { validate(*flags); });
}

}  // namespace weft::cli
