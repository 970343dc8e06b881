// CUDA graphs of training steps: forward and backward of a micro-batch are captured once, and then launched
// by one call of the host.
//
// A graph bakes in what the host decided during the capture, so a micro-batch is replayed only if that is the
// same: the shapes of its fields, the scales of the loss, and the gradients that it accumulates into. Each
// such kind runs eagerly once, as warm-up, is captured the next time, and is replayed from then on.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/stream.hpp"
#include "training/bindings.hpp"
#include "weft/device_kind.hpp"

namespace weft {

class StepGraphs {
 public:
  // For a strategy that holds whole parameters on one rank. Throws UNIMPLEMENTED if the device has no graphs.
  //
  // Makes a stream the current one of this thread: no graph can be recorded on the default stream, and what
  // autograd keeps of a parameter belongs to the stream that was current when the parameter was bound.
  explicit StepGraphs(Bindings& bindings);

  // Runs `action` on that stream, whatever the thread's current one is, and orders both.
  void on_stream(const std::function<void()>& action) const;

  // Runs `forward_and_backward` of a micro-batch of `step`, or replays its graph. Call it on the stream.
  // Throws UNIMPLEMENTED if the work cannot be recorded, and FAILED_PRECONDITION if there are too many kinds.
  void run(weft_step& step, uint32_t index, const std::function<void()>& forward_and_backward);

 private:
  struct Recorded {
    bool seen = false;
    Batch inputs;                                     // on the device
    std::vector<std::pair<size_t, at::Tensor>> loss;  // by term
    std::vector<at::Tensor> gradients;                // by parameter, in the graph's pool; may be undefined
    std::vector<bool> touched;                        // by parameter
    std::unique_ptr<device::Graph> graph;
  };
  std::string kind_of(const weft_step& step, uint32_t index) const;
  void forget(const std::string& latest);
  void record(Recorded& recorded, weft_step& step, uint32_t index, const std::function<void()>& give);
  void replay(const Recorded& recorded, weft_step& step, uint32_t index);
  std::vector<at::Tensor> gradients() const;

  Bindings& bindings_;
  const device::Stream stream_;
  const std::unique_ptr<device::GraphRecorder> recorder_;
  // By kind, and by the graph whose gradients they add to; null for the first of a step.
  std::map<std::pair<std::string, const Recorded*>, Recorded> recorded_;
  const Recorded* base_ = nullptr;  // whose gradients the parameters have
  size_t replays_ = 0;
};

}  // namespace weft
