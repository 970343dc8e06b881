// StopSignals: Ctrl-C, SIGTERM and SIGHUP end a job after the current step.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "weft/job.hpp"
#include "weft/world.hpp"

namespace weft {

// From its construction to its end, the first SIGINT, SIGTERM or SIGHUP calls request_stop() of the job, so
// that the result of the current step has `stop` on every rank and the program can save. A second SIGINT or
// SIGTERM ends the process. A signal that the process ignores (nohup) stays ignored. A launcher of Weft is
// told.
//
// Nothing else in Weft changes handlers or masks of an application. This class sets a handler for each of the
// signals, with SA_ONSTACK; gives the calling thread an alternate stack for it, unless it has one; and blocks
// the signals in libtorch's threads for operations. So the handler never runs on the stack of a computation,
// where it would destroy data (sdk/docs/application.md). Its end restores handlers and stack.
//
// Use it in the thread that trains, one at a time in a process. Throws FAILED_PRECONDITION if there is one
// already.
class StopSignals {
 public:
  explicit StopSignals(const Job& job);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // What stopped the job, the same on every rank: the exit code of all of them is 128 + `signal`.
  struct Stop {
    int signal = 0;
    std::string text;  // "SIGTERM", or "SIGTERM to rank 1" if other ranks got none, or another one, first
  };
  // Returns it after a step that ended with `stop`. SIGINT stands for a request without a signal. Collective.
  Stop agree(const World& world) const;

 private:
  struct Handlers;

  std::shared_ptr<std::atomic<bool>> flag_;
  std::unique_ptr<Handlers> handlers_;  // null in the `weft` command, which takes signals in a thread
};

}  // namespace weft
