// The stop signals of the `weft` program: SIGINT, SIGTERM and SIGHUP are blocked in all of its threads and
// taken by one thread, so that no handler ever runs on the stack of a computation.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace weft::host {

class SignalThread {
 public:
  static SignalThread& of_process();

  // Blocks the signals in the calling thread and takes them from now on. Each ends the process by its default
  // action until on_signal(). Signals that this process ignores (nohup) are left alone. Call it in main(),
  // before other threads begin. If this host gives no thread, changes nothing.
  void begin();
  // Takes signals no longer and restores the mask of the calling thread, which must be that of begin():
  // before fork(), and before code that reads signals itself. Does nothing if no thread runs.
  void end();
  bool runs() const { return thread_.joinable(); }

  // Calls `action` in the thread for each signal, in place of the default action, which `nullptr` restores.
  // Returns when no call of the previous action is under way. Any thread.
  using Action = std::function<void(int signal, pid_t sender)>;
  void on_signal(Action action);

 private:
  void run();

  sigset_t before_;
  int signals_ = -1, end_ = -1;  // descriptors: of the signals, and of end()
  std::thread thread_;
  std::mutex acting_;
  Action action_;  // guarded by acting_
};

}  // namespace weft::host
