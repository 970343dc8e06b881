// Ends of a process that its program did not ask for.
#pragma once

#include <weft/types.h>

#include <string>

#include "host/launch/activity.hpp"

namespace weft::launch {

// As long as one exists, exit() and quick_exit() end this process with exit code 1 and a message that says
// what it was doing: code of a plugin that calls them would end a job as if it had succeeded. The launcher
// takes _exit(0) for a failure, too. Destroy it before the process ends itself. Children may exit. Any
// thread.
class ExitGuard {
 public:
  ExitGuard();
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;

 private:
  const Unfinished unfinished_;
};

// Tells the launcher, or stderr without one, why this process fails, and ends it with exit code 1 at once.
[[noreturn]] void end_with_failure(weft_status status, const std::string& text) noexcept;

}  // namespace weft::launch
