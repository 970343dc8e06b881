// A launcher as a child process, its output in memory, and a pipe through which its ranks tell the test that
// they are there.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"

namespace weft::launch {

struct Output {
  int exit_code = 0;  // 128 + signal if it was killed
  std::string out, error;
};

struct ProcessOptions {
  std::vector<std::pair<std::string, std::string>> environment;
  std::string input;
  int error_fd = -1;  // instead of memory
};

class Process {
 public:
  explicit Process(const std::vector<std::string>& command, const ProcessOptions& options = {});
  ~Process();

  pid_t id() const { return pid_; }
  void signal(int number) const;
  // Until this many ranks have taken the step `ready`, or `tell` by a signal.
  bool wait_for_ready(int count);
  // Until the launcher and all ranks are gone; false after 10 s.
  bool wait_for_silence();
  // True once the launcher has ended; waits at most that long.
  bool ended(int timeout_ms);
  Output finish();

 private:
  Descriptor out_, error_, ready_, handle_;
  pid_t pid_ = -1;
};

// Expects that the launcher ends with this exit code and that nothing was written to stderr.
void expect_quiet_end(Process& process, int exit_code);

// The launcher of the tests with these arguments, from start to end.
Output run_launcher(const std::vector<std::string>& arguments, const ProcessOptions& options = {});

// The command that starts ranks of the test program with these steps.
std::vector<std::string> launcher(int num_ranks, const std::vector<std::string>& steps);

}  // namespace weft::launch
