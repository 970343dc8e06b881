#include "autograd/boundary.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

namespace weft {

namespace {
struct BoundaryNode final : torch::autograd::Node {
  std::function<void()> fire;
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    fire();
    return std::move(gradients);
  }
  std::string name() const override { return "UnitBoundary"; }
};
}  // namespace

bool insert_boundary(State& state, std::function<void()> fire, const std::vector<at::Tensor*>& more) {
  std::vector<at::Tensor*> tensors = more;
  for (auto& [name, tensor] : state) tensors.push_back(&tensor);
  std::erase_if(tensors, [](const at::Tensor* t) { return !t->defined() || !t->requires_grad(); });
  if (tensors.empty()) return false;
  torch::autograd::variable_list inputs;
  for (const at::Tensor* tensor : tensors) inputs.push_back(*tensor);
  auto node = std::shared_ptr<BoundaryNode>(new BoundaryNode, torch::autograd::deleteNode);
  node->fire = std::move(fire);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (at::Tensor* tensor : tensors) {
    at::Tensor output = tensor->detach();
    torch::autograd::set_history(output, node);
    *tensor = output;
  }
  return true;
}

}  // namespace weft
