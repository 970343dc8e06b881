#include "host/launch/early_exit.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <optional>

#include "base/text.hpp"
#include "host/launch/failure_report.hpp"
#include "host/launch/rank_environment.hpp"

namespace weft::launch {
namespace {

std::atomic<int> guards = 0;
std::atomic<pid_t> guarded_process = -1;

void refuse_exit() {
  if (guards == 0 || guarded_process != getpid()) return;
  const std::string activity = current_activity();
  end_with_failure(WEFT_ABORTED,
                   fmt::format("a library ended this process with exit(){}{}, before its work was done",
                               activity.empty() ? "" : " ", activity));
}

}  // namespace

ExitGuard::ExitGuard() {
  // Not earlier: what is registered last runs first, while the libraries that a message needs still work.
  [[maybe_unused]] static const int registered = std::atexit(refuse_exit) + std::at_quick_exit(refuse_exit);
  guarded_process = getpid();
  ++guards;
}

ExitGuard::~ExitGuard() {
  --guards;
}

void end_with_failure(weft_status status, const std::string& text) noexcept {
  std::optional<RankEnvironment> ranks;
  try {
    ranks = read_rank_environment();
  } catch (...) {  // a launcher's variables are wrong: this process is no rank
  }
  if (ranks && (ranks->world_size > 1 || has_report_channel())) {
    report_failure(ranks->rank, status, text);
  } else {
    const std::string line = "weft: " + text + "\n";
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) _exit(1);
  }
  _exit(1);
}

}  // namespace weft::launch
