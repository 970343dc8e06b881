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

  // Blocks the signals in the calling thread and starts the thread that takes them. Until on_signal() sets an
  // action, a signal ends the process as its default action does. Signals that the process ignores (nohup)
  // stay ignored. Call it in main(), before other threads exist. Changes nothing if no thread can be started.
  void begin();
  // Stops the thread and restores the mask of the calling thread, which must be the one that called begin().
  // Call it before fork() and before code that reads signals itself. Does nothing if no thread runs.
  void end();
  bool runs() const { return thread_.joinable(); }

  // Sets what the thread does for each signal; nullptr restores the default action. Returns when the previous
  // action is no longer running. Any thread.
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
