// StopSignals: Ctrl-C, SIGTERM and SIGHUP end a job after the current step.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "weft/job.hpp"
#include "weft/world.hpp"

namespace weft {

// While the object exists, the first SIGINT, SIGTERM or SIGHUP calls Job::request_stop(): the result of the
// current step has `stop` on every rank, and the program can save. A second SIGINT or SIGTERM ends the
// process. A signal that the process ignores (nohup) stays ignored.
//
// This is the only part of Weft that changes the signal handlers of an application. The constructor installs
// handlers with SA_ONSTACK, gives the calling thread an alternate signal stack unless it has one, and blocks
// the signals in libtorch's intra-op threads, so that no handler runs on the stack of a computation
// (sdk/docs/application.md). The destructor restores the handlers and the stack.
//
// Create and destroy it in the thread that trains. Throws FAILED_PRECONDITION if the process has one already.
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
