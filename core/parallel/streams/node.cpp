#include "streams/node.hpp"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

#include "autograd/deferred_gradients.hpp"
#include "autograd/first_order.hpp"

namespace weft::parallel {

namespace {

class Border final : public RepeatableNode {
 public:
  explicit Border(std::function<at::Tensor(const at::Tensor&)> gradient) : gradient_(std::move(gradient)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (!gradients[0].defined()) return {at::Tensor()};
    require_first_order("parallel region");
    return {gradient_(gradients[0])};
  }
  std::string name() const override { return "RegionBorder"; }

 private:
  const std::function<at::Tensor(const at::Tensor&)> gradient_;
};

}  // namespace

at::Tensor with_gradient(const at::Tensor& values, const at::Tensor& input,
                         std::function<at::Tensor(const at::Tensor& gradient)> gradient) {
  // `values` may be a view, a slice of a receive buffer for example, whose base has no history; autograd
  // would reject a history for it.
  at::Tensor result = values.detach();
  if (!at::GradMode::is_enabled() || !input.requires_grad()) return result;
  const std::shared_ptr<Border> node(new Border(std::move(gradient)), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(input));
  torch::autograd::set_history(result, node);
  return result;
}

}  // namespace weft::parallel
