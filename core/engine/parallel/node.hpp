// A tensor that communication made, as a result of the graph.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace weft::parallel {

// `result` shares no graph yet; its gradient goes through `node` to `input`.
template <class N, class... Arguments>
at::Tensor with_node(at::Tensor result, const at::Tensor& input, Arguments&&... arguments) {
  if (!at::GradMode::is_enabled() || !input.requires_grad()) return result;
  const std::shared_ptr<N> node(new N(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(input));
  torch::autograd::set_history(result, node);
  return result;
}

}  // namespace weft::parallel
