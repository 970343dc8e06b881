#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "autograd/first_order.hpp"
#include "base/text.hpp"
#include "layers/linear.hpp"
#include "streams/ring.hpp"
#include "streams/split_residual_stream.hpp"

namespace weft::parallel {

namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// The backward of leave_product: each rank's product of all positions with its input features, summed over
// the ranks and scattered along the sequence.
class ScatteredProduct final : public torch::autograd::Node {
 public:
  ScatteredProduct(const at::Tensor& x, const at::Tensor& weight, nn::Linear::Layout layout,
                   Positions positions)
      : x_(x, /*is_output=*/false),
        weight_(weight, /*is_output=*/false),
        layout_(layout),
        positions_(std::move(positions)) {}
  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) return {{}, {}};
    require_first_order("linear");
    const at::Tensor x = x_.unpack(), weight = weight_.unpack();
    const at::Tensor dx = at::empty(x.sizes(), x.options());
    at::Tensor dw;
    visit_parts(positions_, gradients[0], x.size(1), [&](int rank, const at::Tensor& dy) {
      const Run at = positions_.of(rank, x.size(1)).front();
      if (at.count == 0) return;
      dx.narrow(1, at.begin, at.count).copy_(nn::linear_input_gradient(dy, weight, layout_));
      add(dw, nn::linear_weight_gradient(dy, x.narrow(1, at.begin, at.count), layout_));
    });
    return {dx, dw};
  }
  void release_variables() override {
    x_.reset_data();
    weight_.reset_data();
  }
  std::string name() const override { return "ScatteredProduct"; }

  static void add(at::Tensor& sum, const at::Tensor& term) { sum = sum.defined() ? sum.add_(term) : term; }

 private:
  SavedVariable x_, weight_;
  const nn::Linear::Layout layout_;
  const Positions positions_;
};

// Enters and leaves regions in a ring: parts travel from rank to rank while each rank computes with the part
// that it has.
class RingResidualStream final : public SplitResidualStream {
 public:
  explicit RingResidualStream(const StreamSetting& setting) : SplitResidualStream(setting, false) {}

  at::Tensor leave_product(const nn::Linear& layer, const at::Tensor& x) override {
    if (layer.product != nullptr)
      fail(WEFT_UNIMPLEMENTED,
           "sequence_parallelism_mode ring computes the product of a row-parallel layer part by part, which "
           "is not possible with an adapter; choose all_to_all or ring_attn");
    const at::Tensor& weight = layer.weight;
    const nn::Linear::Layout layout = layer.layout;
    at::Tensor result = sum_parts(positions(), x.size(1), [&](int rank) {
      return nn::linear(positions().of(rank, x), weight, {}, layout);
    });
    if (!torch::autograd::compute_requires_grad(x, weight)) return result;
    const std::shared_ptr<ScatteredProduct> node(new ScatteredProduct(x, weight, layout, positions()),
                                                 torch::autograd::deleteNode);
    node->set_next_edges(torch::autograd::collect_next_edges(x, weight));
    torch::autograd::set_history(result, node);
    return result;
  }

  at::Tensor gather_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            nn::Linear::Layout layout, at::Tensor& whole) const override {
    at::Tensor result;
    visit(x, length(), whole, [&](const Run& at, const at::Tensor& part) {
      const at::Tensor product = nn::linear(part, weight, bias, layout);
      if (!result.defined()) {
        at::DimVector shape(product.sizes());
        shape[1] = length();
        result = at::empty(shape, product.options());
      }
      result.narrow(1, at.begin, at.count).copy_(product);
    });
    return result;
  }

  at::Tensor gather_weight_gradient(const at::Tensor& dy, const at::Tensor& x, nn::Linear::Layout layout,
                                    int64_t total, at::Tensor& whole) const override {
    at::Tensor gradient;
    visit(x, total, whole, [&](const Run& at, const at::Tensor& part) {
      ScatteredProduct::add(gradient,
                            nn::linear_weight_gradient(dy.narrow(1, at.begin, at.count), part, layout));
    });
    return gradient;
  }

 private:
  // Calls `visit` with every part and its place in the sequence, and fills `whole` with all parts.
  void visit(const at::Tensor& x, int64_t total, at::Tensor& whole,
             const std::function<void(const Run& at, const at::Tensor& part)>& visit) const {
    at::DimVector shape(x.sizes());
    shape[1] = total;
    whole = at::empty(shape, x.options());
    visit_parts(positions(), x, total, [&](int rank, const at::Tensor& part) {
      const Run at = positions().of(rank, total).front();
      if (at.count == 0) return;
      whole.narrow(1, at.begin, at.count).copy_(part);
      visit(at, part);
    });
  }
};

}  // namespace

std::shared_ptr<ResidualStream> make_ring(const StreamSetting& setting) {
  return std::make_shared<RingResidualStream>(setting);
}

}  // namespace weft::parallel
