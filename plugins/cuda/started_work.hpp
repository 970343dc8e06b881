// What a communicator has started, so that a failure names the collective. Nobody waits for the work of a
// device, so a failure is found later, by a watchdog.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace weft::cuda {

// Any thread.
class StartedWork {
 public:
  // `result` is of the watchdog, which completes it with a c10d::WorkResult when the work has ended. Null:
  // nobody will know.
  void add(c10d::OpType type, const std::vector<at::Tensor>& inputs,
           c10::intrusive_ptr<c10::ivalue::Future> result);
  // Returns the first work that did not succeed: "all_reduce of 4096 bytes". "a collective" if it is not
  // known.
  std::string failed();

 private:
  struct Started {
    std::string what;
    c10::intrusive_ptr<c10::ivalue::Future> result;
  };

  std::mutex mutex_;
  std::deque<Started> started_;  // without those at the front that have succeeded
};

// Returns how messages tell why work failed: "was not done within 20 s".
std::string words_of(c10d::ErrorType error, std::chrono::milliseconds timeout);

}  // namespace weft::cuda
