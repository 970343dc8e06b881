// Splits a backward pass into two halves, for pipeline schedules that fill bubbles with weight gradients. The
// first half computes the gradients of activations, for which other stages wait. Layers defer the gradients
// of their parameters, for which nobody waits, to the second half.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <vector>

namespace weft {

// A node that saves no tensors for backward, so that both halves can run it.
class RepeatableNode : public torch::autograd::Node {};

// What the first half of one backward pass defers to the second.
class DeferredGradients {
 public:
  // Construct it before the forward whose backward is split, on the thread that runs it.
  DeferredGradients();
  DeferredGradients(const DeferredGradients&) = delete;

  // Returns true if the gradient of `parameter`, an argument of a layer, can be deferred: if it is a
  // parameter, or a parameter that was cast to another dtype or passed through RepeatableNodes. Other
  // functions of parameters save tensors for backward, which the first half frees.
  static bool can_defer(const at::Tensor& parameter);

  // Defers gradients. `compute` returns one for each edge.
  using Compute = std::function<torch::autograd::variable_list()>;
  void defer(torch::autograd::edge_list edges, Compute compute);
  // Defers a call. It runs after the gradients that were deferred before it.
  void defer(std::function<void()> call);

  // Runs the second half, in the order in which gradients and calls were deferred. Frees what each
  // computation holds before the next one starts. If a parameter has several deferred gradients, autograd
  // adds them up and accumulates the sum into .grad once.
  void run();

 private:
  struct Deferred {
    torch::autograd::edge_list edges;
    Compute compute;
  };
  class Step;
  std::vector<Deferred> deferred_;
};

}  // namespace weft
