#include "autograd/boundary.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

namespace weft {

namespace {
struct BoundaryNode final : torch::autograd::Node {
  const void* owner = nullptr;
  size_t outputs = 0;
  std::function<void()> fire, fire_first;  // the second may be empty
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (fire_first) fire_first();
    fire();
    return std::move(gradients);
  }
  std::string name() const override { return "UnitBoundary"; }
};

// Returns the node whose outputs `tensors` are, all of them and in their order, if it is one of `owner` that
// can still take a function.
BoundaryNode* open_node(const std::vector<at::Tensor*>& tensors, const void* owner) {
  const auto node_of = [](const at::Tensor& tensor) {
    return dynamic_cast<BoundaryNode*>(tensor.grad_fn().get());
  };
  BoundaryNode* const node = node_of(*tensors.front());
  if (node == nullptr || node->owner != owner || node->fire_first || node->outputs != tensors.size())
    return nullptr;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i]->grad_fn().get() != node || static_cast<size_t>(tensors[i]->output_nr()) != i)
      return nullptr;
  return node;
}

}  // namespace

bool insert_boundary(State& state, const void* owner, std::function<void()> fire,
                     const std::vector<at::Tensor*>& more) {
  std::vector<at::Tensor*> tensors = more;
  for (auto& [name, tensor] : state) tensors.push_back(&tensor);
  std::erase_if(tensors, [](const at::Tensor* t) { return !t->defined() || !t->requires_grad(); });
  if (tensors.empty()) return false;
  if (BoundaryNode* const node = open_node(tensors, owner)) {
    node->fire_first = std::move(fire);
    return true;
  }
  torch::autograd::variable_list inputs;
  for (const at::Tensor* tensor : tensors) inputs.push_back(*tensor);
  auto node = std::shared_ptr<BoundaryNode>(new BoundaryNode, torch::autograd::deleteNode);
  node->owner = owner;
  node->outputs = tensors.size();
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
