#include "autograd/boundary.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/utils.h>

namespace weft {

namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

// What backward calls at a boundary.
struct Calls {
  const void* owner = nullptr;
  std::vector<std::function<void()>> functions;  // the last one first

  void operator()() const {
    for (auto function = functions.rbegin(); function != functions.rend(); ++function) (*function)();
  }
};

struct BoundaryNode final : Node {
  Calls calls;
  size_t outputs = 0;
  variable_list apply(variable_list&& gradients) override {
    calls();
    return std::move(gradients);
  }
  std::string name() const override { return "UnitBoundary"; }
};

struct BoundaryHook final : torch::autograd::FunctionPreHook {
  Calls calls;
  variable_list operator()(const variable_list& gradients) override {
    calls();
    return gradients;
  }
};

// Returns the node of a boundary whose outputs `tensors` are, all of them and in their order; otherwise null.
BoundaryNode* node_of(const std::vector<at::Tensor*>& tensors) {
  auto* const node = dynamic_cast<BoundaryNode*>(tensors.front()->grad_fn().get());
  if (node == nullptr || node->outputs != tensors.size()) return nullptr;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i]->grad_fn().get() != node || static_cast<size_t>(tensors[i]->output_nr()) != i)
      return nullptr;
  return node;
}

BoundaryHook* hook_of(const Node& maker) {
  for (const auto& hook : maker.pre_hooks())
    if (auto* const found = dynamic_cast<BoundaryHook*>(hook.get())) return found;
  return nullptr;
}

// Returns the calls of a boundary over just these tensors that exists, or that needs no node; otherwise null.
Calls* find_calls(const std::vector<at::Tensor*>& tensors, UnitSide side, const void* owner) {
  if (BoundaryNode* const node = node_of(tensors)) return node->calls.owner == owner ? &node->calls : nullptr;
  Node* const maker = tensors.front()->grad_fn().get();
  if (tensors.size() > 1 || maker == nullptr || maker->num_inputs() > 1) return nullptr;
  if (BoundaryHook* const hook = hook_of(*maker)) return hook->calls.owner == owner ? &hook->calls : nullptr;
  if (side == UnitSide::kBefore) return nullptr;  // others may use the tensor, in other backwards
  auto hook = std::make_unique<BoundaryHook>();
  hook->calls.owner = owner;
  Calls* const calls = &hook->calls;
  maker->add_pre_hook(std::move(hook));
  return calls;
}

// Lets the tensors pass through a node.
void add_node(const std::vector<at::Tensor*>& tensors, Calls calls) {
  variable_list inputs;
  for (const at::Tensor* tensor : tensors) inputs.push_back(*tensor);
  auto node = std::shared_ptr<BoundaryNode>(new BoundaryNode, torch::autograd::deleteNode);
  node->calls = std::move(calls);
  node->outputs = tensors.size();
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  for (at::Tensor* tensor : tensors) {
    at::Tensor output = tensor->detach();
    torch::autograd::set_history(output, node);
    *tensor = output;
  }
}

}  // namespace

bool insert_boundary(State& state, UnitSide side, const void* owner, std::function<void()> fire,
                     const std::vector<at::Tensor*>& more) {
  std::vector<at::Tensor*> tensors = more;
  for (auto& [name, tensor] : state) tensors.push_back(&tensor);
  std::erase_if(tensors, [](const at::Tensor* t) { return !t->defined() || !t->requires_grad(); });
  if (tensors.empty()) return false;
  if (Calls* const calls = find_calls(tensors, side, owner))
    calls->functions.push_back(std::move(fire));
  else
    add_node(tensors, {owner, {std::move(fire)}});
  return true;
}

}  // namespace weft
