// A backward in two halves. The first computes the gradients of what entered, for which other pipeline stages
// wait. Layers leave the gradients of their parameters, for which nobody waits, to the second.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <vector>

namespace weft {

// A node that keeps no tensors for backward, so that backward may run through it in both halves.
class RepeatableNode : public torch::autograd::Node {};

// What the first half of one backward has left to the second.
class DeferredGradients {
 public:
  // Made before the forward whose backward is split, on the thread that runs it.
  DeferredGradients();
  DeferredGradients(const DeferredGradients&) = delete;

  // Returns true if the gradient of `parameter`, an argument of a layer, can be left to the second half: if
  // it is a parameter, or one that was cast to another dtype or passed through RepeatableNodes. The first
  // half frees what other functions of parameters keep for backward.
  static bool can_wait(const at::Tensor& parameter);

  // Leaves gradients to the second half. `compute` returns one for each edge.
  using Compute = std::function<torch::autograd::variable_list()>;
  void leave(torch::autograd::edge_list edges, Compute compute);
  // Leaves a call to it. It comes after the gradients that were left before, and before those left later.
  void leave(std::function<void()> call);

  // Runs the second half: computes one gradient at a time, in the order in which they were left, and frees
  // what its computation has kept. Autograd adds the gradients of a parameter that were left several times,
  // and accumulates the sum into .grad, once.
  void run();

 private:
  struct Left {
    torch::autograd::edge_list edges;
    Compute compute;
  };
  class Step;
  std::vector<Left> left_;
};

}  // namespace weft
