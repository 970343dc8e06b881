// One rank as a child process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"

namespace weft::launch {

struct RankStart {
  const char* file;                      // searched on PATH if it has no slash
  std::vector<std::string> arguments;    // with the program's name
  std::vector<std::string> environment;  // all of it, NAME=VALUE
  std::vector<int> inherited;            // descriptors that are close-on-exec here and open there
  bool own_input = false;                // reads this process's stdin; else /dev/null
  bool keep_errors = true;               // stderr is a pipe to this process; else it is this process's
  bool ignores_broken_pipes = false;     // begins with SIGPIPE ignored
};

// How a process ended.
struct RankEnd {
  int code = 0;    // exit code, if it exited
  int signal = 0;  // else what killed it
  bool success() const { return code == 0 && signal == 0; }
  int exit_code() const { return signal != 0 ? 128 + signal : code; }  // as a shell shows it
};

class RankProcess {
 public:
  // Starts it in a process group of its own, with this thread's signal mask emptied, to be killed if this
  // thread ends. Throws std::system_error if it cannot start, with the reason of exec.
  explicit RankProcess(const RankStart& start);
  RankProcess(RankProcess&&) = default;

  // Of the process, and of its group; -1 once reaped.
  pid_t id() const { return pid_; }

  // Signals the whole group. The group's number stays ours until reap().
  void signal(int number) const;
  // Sees whether it ended; never waits.
  const std::optional<RankEnd>& check();
  const std::optional<RankEnd>& end() const { return end_; }
  // Ends what is left of the group if asked, and lets the process's number go. Only after end().
  void reap(bool end_group);

  // stderr. Forwards to our stderr what is there and keeps its last lines; never waits for more.
  int error_fd() const { return errors_.get(); }
  void forward_errors();
  // At most 20 lines.
  std::vector<std::string> last_lines() const;

 private:
  void keep(std::string_view text);

  pid_t pid_ = -1;
  Descriptor errors_;
  std::string tail_;
  std::optional<RankEnd> end_;
};

// Writes all of it to stderr, as one piece if it is short.
void write_error(std::string_view text);

}  // namespace weft::launch
