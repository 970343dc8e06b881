#include "autograd/deferred_gradients.hpp"

#include <ATen/SequenceNumber.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "device/device.hpp"

namespace weft {

namespace {

using torch::autograd::Edge;
using torch::autograd::variable_list;

bool can_run_twice(const torch::autograd::Node* node) {
  if (dynamic_cast<const torch::autograd::AccumulateGrad*>(node) != nullptr) return true;
  // A cast saves its dtypes, but no tensor.
  if (dynamic_cast<const RepeatableNode*>(node) == nullptr && node->name() != "ToCopyBackward0") return false;
  return std::all_of(node->next_edges().begin(), node->next_edges().end(),
                     [](const Edge& edge) { return !edge.is_valid() || can_run_twice(edge.function.get()); });
}

// Of the nodes that are ready, autograd runs the one with the highest number first.
constexpr uint64_t kLowest = 0;

}  // namespace

// A node of the second half. Its last edge leads to the next one, which has the lowest number, so that each
// gradient is accumulated before the next one is computed. Autograd has a thread for each device and one for
// nodes without tensors of a device, and nothing orders nodes of two threads. So each node passes on `token`,
// a tensor of the device on which gradients are accumulated.
class DeferredGradients::Step final : public torch::autograd::Node {
 public:
  Step(Deferred deferred, bool is_last, at::Tensor token)
      : torch::autograd::Node(kLowest, std::move(deferred.edges)),
        compute_(std::move(deferred.compute)),
        is_last_(is_last),
        token_(std::move(token)) {}
  variable_list apply(variable_list&&) override {
    variable_list gradients = std::exchange(compute_, nullptr)();  // and free what it holds
    gradients.resize(num_outputs());
    if (!is_last_) gradients.back() = token_;
    return gradients;
  }
  std::string name() const override { return "DeferredGradient"; }

 private:
  Compute compute_;
  const bool is_last_;
  const at::Tensor token_;
};

DeferredGradients::DeferredGradients() {
  // No node that is made from here on has the lowest number.
  at::sequence_number::get_and_increment();
}

bool DeferredGradients::can_defer(const at::Tensor& parameter) {
  const auto& node = parameter.grad_fn();
  return node == nullptr || can_run_twice(node.get());
}

void DeferredGradients::defer(torch::autograd::edge_list edges, Compute compute) {
  deferred_.push_back({std::move(edges), std::move(compute)});
}

void DeferredGradients::defer(std::function<void()> call) {
  defer({}, [call = std::move(call)] {
    call();
    return variable_list();
  });
}

void DeferredGradients::run() {
  std::vector<Deferred> deferred = std::exchange(deferred_, {});
  if (deferred.empty()) return;
  const at::Tensor token = at::empty({0}, device::current().options(at::kFloat));
  std::shared_ptr<Step> first;
  for (auto one = deferred.rbegin(); one != deferred.rend(); ++one) {
    const bool is_last = first == nullptr;
    if (!is_last) one->edges.emplace_back(first, first->add_input_metadata(token));
    first.reset(new Step(std::move(*one), is_last, token), torch::autograd::deleteNode);
  }
  const at::Tensor root = at::empty_like(token);
  torch::autograd::set_history(root, std::exchange(first, nullptr));
  torch::autograd::backward({root}, {token});
}

}  // namespace weft
