// CUDA graphs of training steps: forward and backward of a micro-batch are captured once, and then launched
// by one call of the host.
//
// A graph bakes in what the host decided during the capture, so a micro-batch is replayed only if that is the
// same: the shapes of its fields, the number of positions in the step, and the gradients that it accumulates
// into. Each such kind runs eagerly once, as warm-up, is captured the next time, and is replayed from then
// on. The fields, the number of labels, the loss scale and the seeds of dropout are on the device, where each
// replay gets its own. Hooks of the strategy, and with them all communication, are called around a
// replay.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/stream.hpp"
#include "layers/graph_seeds.hpp"
#include "training/bindings.hpp"
#include "training/step.hpp"
#include "weft/device_kind.hpp"

namespace weft {

class StepGraphs {
 public:
  // For a strategy that keeps the storage of parameters, without tensor, sequence and pipeline axes. Throws
  // UNIMPLEMENTED if the device has no graphs.
  //
  // Makes a stream the current one of this thread: no graph can be captured on the default stream, and what
  // autograd keeps of a parameter belongs to the stream that was current when the parameter was bound.
  explicit StepGraphs(Bindings& bindings);

  // Runs `action` on that stream, whatever the thread's current one is, and orders both.
  void on_stream(const std::function<void()>& action) const;

  // Runs `forward_and_backward` of a micro-batch of `step`, or replays its graph. Call it on the stream.
  // Throws UNIMPLEMENTED if the work cannot be captured, and FAILED_PRECONDITION if there are too many kinds.
  void run(weft_step& step, uint32_t index, const std::function<void()>& forward_and_backward);

 private:
  struct Captured {
    bool seen = false;
    State input;                 // of the first unit, on the device
    Batch batch;                 // on the device, for the loss
    std::vector<double> scales;  // that `step.scales` has; empty if nobody has filled it
    StepCapture step;
    std::vector<std::string> names;     // of the terms of `step`, those of auxiliary losses too
    std::vector<at::Tensor> gradients;  // by parameter, in the graph's pool; may be undefined
    std::vector<bool> touched;          // by parameter
    Strategy::KeptHooks hooks;          // of backward
    nn::GraphSeeds seeds;
    std::unique_ptr<device::Graph> graph;
  };
  std::string kind_of(const weft_step& step, uint32_t index) const;
  void forget(const std::string& latest);
  void capture(Captured& captured, weft_step& step, uint32_t index, const std::function<void()>& give);
  void replay(Captured& captured, weft_step& step, uint32_t index);
  std::vector<at::Tensor> gradients() const;
  void set_gradients(const std::vector<at::Tensor>& gradients) const;

  Bindings& bindings_;
  const device::Stream stream_;
  const std::unique_ptr<device::GraphCapturer> capturer_;
  // By kind, and by the graph whose gradients they add to; null for the first of a step.
  std::map<std::pair<std::string, const Captured*>, Captured> captured_;
  const Captured* base_ = nullptr;  // whose gradients the parameters have
  size_t replays_ = 0;
};

}  // namespace weft
