#include "layers/linear.hpp"

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>

#include <ATen/core/List.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "autograd/deferred_gradients.hpp"
#include "autograd/first_order.hpp"
#include "cpu/product.hpp"
#include "device/autocast.hpp"
#include "device/padded_rows.hpp"
#include "device/tensors.hpp"
#include "dispatch/operators.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/residual_stream.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::nn {

namespace {

at::Tensor meta(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({c10::multiply_integers(x.sizes().slice(0, x.dim() - 1)), x.size(-1)});
}

// Reshapes `rows` to the leading dimensions of `like`. The result is not a view for autograd, so the next
// operation may overwrite it.
at::Tensor with_last(const at::Tensor& rows, const at::Tensor& like) {
  at::DimVector shape(like.sizes());
  shape.back() = rows.size(-1);
  return at::_unsafe_view(rows, shape);
}

// Returns true where a product has padding after its rows (padded_rows.hpp). `x` is what autocast passes to
// it.
bool pads(const at::Tensor& x, int64_t outputs, Linear::Layout layout) {
  return layout == Linear::Layout::kOutIn && device::gains_by_padding(x, outputs);
}

// Returns x w + b for w (out, in), with padding after its rows, which is zero.
at::Tensor padded_product(const at::Tensor& rows, const at::Tensor& w, const at::Tensor& b) {
  const at::Tensor result = device::empty_with_padding(rows.size(0), w.size(0), rows.options());
  at::Tensor whole = device::with_padding(result);
  const at::Tensor matrix = device::with_rows_of_zeros(w).t();
  if (b.defined())
    at::addmm_out(whole, device::with_rows_of_zeros(b), rows, matrix);
  else
    at::mm_out(whole, rows, matrix);
  return result;
}

// Return the gradients of linear(), with Weft's products (product.hpp) or libtorch's.
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight, Linear::Layout layout, bool fast) {
  const at::Tensor rows = rows_of(dy), w = weight.to(dy.scalar_type()),
                   matrix = layout == Linear::Layout::kOutIn ? w.t() : w;
  if (pads(rows, rows.size(1), layout))
    return with_last(at::mm(device::with_padding(rows), device::with_rows_of_zeros(w)), dy);
  return with_last(fast ? kernels::product(rows, matrix) : at::mm(rows, matrix.t()), dy);
}

at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x, Linear::Layout layout, bool fast) {
  const bool out_in = layout == Linear::Layout::kOutIn;
  const at::Tensor of_dy = rows_of(dy), of_x = rows_of(x).to(dy.scalar_type());
  if (pads(of_dy, of_dy.size(1), layout))
    return at::mm(device::with_padding(of_dy).t(), of_x).narrow(0, 0, of_dy.size(1));
  const at::Tensor &first = out_in ? of_dy : of_x, &second = out_in ? of_x : of_dy;
  return fast ? kernels::product_over_rows(first, second) : at::mm(first.t(), second);
}

// Returns true where the gradient of a bias is the work of Weft's kernel.
bool sums_columns(const at::Tensor& x) {
  return !device::is_on_host(x) && !x.is_meta() && at::isReducedFloatingType(x.scalar_type()) &&
         has_layer_kernel<operators::ColumnSums>(x);
}

// Returns x w + b by Weft's product, with padding after its rows, or by libtorch's.
at::Tensor own_product(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, Linear::Layout layout) {
  const at::Tensor rows = rows_of(x);
  const bool transposed = layout == Linear::Layout::kOutIn;
  if (kernels::has_fast_product(x)) return with_last(kernels::product(rows, transposed ? w : w.t(), b), x);
  if (pads(x, transposed ? w.size(0) : w.size(1), layout)) return with_last(padded_product(rows, w, b), x);
  const at::Tensor matrix = transposed ? w.t() : w;
  return with_last(b.defined() ? at::addmm(b, rows, matrix) : at::mm(rows, matrix), x);
}

// Computes own_product() and its gradients.
class OwnLinear : public torch::autograd::Function<OwnLinear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& w, const std::optional<at::Tensor>& b, Linear::Layout layout) {
    context->save_for_backward({x, w});
    context->saved_data["layout"] = static_cast<int64_t>(layout);
    context->saved_data["biased"] = b.has_value();
    context->set_materialize_grads(false);  // a layer that no loss reaches has no gradient, not zeros
    return own_product(x, w, b.value_or(at::Tensor()), layout);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    require_first_order("linear");
    torch::autograd::variable_list result(4);
    if (!gradients[0].defined()) return result;
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &w = saved[1];
    const auto layout = static_cast<Linear::Layout>(context->saved_data["layout"].toInt());
    if (context->needs_input_grad(0)) result[0] = linear_input_gradient(gradients[0], w, layout);
    if (context->needs_input_grad(1)) result[1] = linear_weight_gradient(gradients[0], x, layout);
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(2))
      result[2] = linear_bias_gradient(gradients[0]);
    return result;
  }
};

// Computes own_product() of one input with several weights (out, in), and its gradients. Each product for the
// gradient of the input but the first adds to what the earlier ones gave.
class JointLinear : public torch::autograd::Function<JointLinear> {
 public:
  // `biased` tells which of the products have a bias; `biases` has those.
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& x, at::TensorList weights,
                                                at::TensorList biases, const std::vector<bool>& biased) {
    torch::autograd::variable_list saved = {x}, results;
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    c10::List<bool> kept;
    for (const bool has_bias : biased) kept.push_back(has_bias);
    context->saved_data["biased"] = std::move(kept);
    context->set_materialize_grads(false);
    for (size_t i = 0, bias = 0; i < weights.size(); ++i)
      results.push_back(own_product(x, weights[i], biased[i] ? biases[bias++] : at::Tensor(), kLayout));
    return results;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    require_first_order("linear");
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const c10::List<bool> biased = context->saved_data["biased"].toBoolList();
    torch::autograd::variable_list result(1 + gradients.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (biased[i]) result.emplace_back();
      const at::Tensor& dy = gradients[i];
      if (!dy.defined()) continue;
      const size_t weight = 1 + i, bias = result.size() - 1;
      if (context->needs_input_grad(0)) result[0] = with_input_gradient(result[0], dy, saved[weight]);
      if (context->needs_input_grad(weight)) result[weight] = linear_weight_gradient(dy, saved[0], kLayout);
      if (biased[i] && context->needs_input_grad(bias)) result[bias] = linear_bias_gradient(dy);
    }
    result.emplace_back();  // of `biased`
    return result;
  }

 private:
  static constexpr auto kLayout = Linear::Layout::kOutIn;

  static at::Tensor with_input_gradient(const at::Tensor& sum, const at::Tensor& dy, const at::Tensor& w) {
    if (!sum.defined()) return linear_input_gradient(dy, w, kLayout);
    if (kernels::has_fast_product(dy))
      return with_last(kernels::product_added_to(rows_of(sum), rows_of(dy), w.t()), dy);
    rows_of(sum).addmm_(rows_of(dy), w);
    return sum;
  }
};

at::Tensor conv1d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!bias.defined()) return at::matmul(x, weight);
  // addmm adds the bias in the same pass, over all leading dimensions at once.
  return with_last(at::addmm(bias, rows_of(x), weight), x);
}

// Returns true where linear() computes with Weft's products. Autocast acts on libtorch's operations only.
bool uses_fast_product(const at::Tensor& x) {
  return kernels::has_fast_product(x) && !device::autocast_dtype();
}

at::Tensor own_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      Linear::Layout layout) {
  if (!at::GradMode::is_enabled()) return own_product(x, weight, bias, layout);
  const std::optional<at::Tensor> added = bias.defined() ? std::optional(bias) : std::nullopt;
  return OwnLinear::apply(x, weight, added, layout);
}

at::Tensor whole_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        Linear::Layout layout) {
  if (uses_fast_product(x)) return own_linear(x, weight, bias, layout);
  const at::Tensor of_x = device::is_on_host(x) ? x : device::autocast(x);
  if (pads(of_x, weight.size(0), layout) || (bias.defined() && sums_columns(of_x)))
    return own_linear(of_x, device::autocast(weight), device::autocast(bias), layout);
  return layout == Linear::Layout::kOutIn ? at::linear(of_x, weight, bias) : conv1d(of_x, weight, bias);
}

// The backward of linear() in two halves: computes the gradient of the input, and defers those of weight and
// bias. The results are bitwise identical to those of one backward. Its only edge is that of the input:
// with edges to the parameters, autograd would call their hooks in the first half, too.
class SplitLinear final : public torch::autograd::Node {
 public:
  SplitLinear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Linear::Layout layout,
              bool fast, std::shared_ptr<DeferredGradients> deferred)
      : x_(x, /*is_output=*/false),
        weight_(weight, /*is_output=*/false),
        parameters_(torch::autograd::collect_next_edges(weight, bias)),
        layout_(layout),
        fast_(fast),
        deferred_(std::move(deferred)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    torch::autograd::variable_list result(num_outputs());
    const at::Tensor& dy = gradients[0];
    if (!dy.defined()) return result;
    require_first_order("linear");
    // Without its history, which would keep the graph of the unit.
    const at::Tensor x = x_.unpack().detach();
    if (task_should_compute_output(0)) result[0] = input_gradient(dy, weight_.unpack(), layout_, fast_);
    const bool biased = parameters_[1].is_valid();
    deferred_->defer(parameters_, [x, dy, biased, layout = layout_, fast = fast_] {
      return torch::autograd::variable_list{weight_gradient(dy, x, layout, fast),
                                            biased ? linear_bias_gradient(dy) : at::Tensor()};
    });
    return result;
  }
  void release_variables() override {
    x_.reset_data();
    weight_.reset_data();
  }
  std::string name() const override { return "SplitLinear"; }

 private:
  torch::autograd::SavedVariable x_, weight_;
  const torch::autograd::edge_list parameters_;  // of weight and bias
  const Linear::Layout layout_;
  const bool fast_;
  const std::shared_ptr<DeferredGradients> deferred_;
};

at::Tensor split_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        Linear::Layout layout, std::shared_ptr<DeferredGradients> deferred) {
  const at::Tensor of_x = device::autocast(x), w = device::autocast(weight), b = device::autocast(bias);
  const std::shared_ptr<SplitLinear> node(
      new SplitLinear(of_x, w, b, layout, uses_fast_product(of_x), std::move(deferred)),
      torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(of_x));
  const at::NoGradGuard no_graph;
  const at::Tensor result = whole_linear(of_x, w, b, layout).detach();
  torch::autograd::set_history(result, node);
  return result;
}

class PlainLinear final : public LinearOperation {
 public:
  at::Tensor forward(const Linear& layer, const at::Tensor& x) const override {
    return product(layer, x, layer.weight, layer.bias);
  }
};

std::shared_ptr<LinearOperation> plain_linear() {
  static const auto operation = std::make_shared<PlainLinear>();
  return operation;
}

at::Tensor linear_weight(int64_t in, int64_t out, at::ScalarType dtype, Linear::Layout layout) {
  return layout == Linear::Layout::kOutIn ? meta({out, in}, dtype) : meta({in, out}, dtype);
}

}  // namespace

std::vector<at::Tensor> linears(const at::Tensor& x, const std::vector<const Linear*>& layers) {
  const bool gains = device::is_on_host(x) ? uses_fast_product(x) : !x.is_meta();
  const bool joined = gains && at::GradMode::is_enabled() && x.requires_grad() &&
                      std::all_of(layers.begin(), layers.end(), [&](const Linear* layer) {
                        return layer->layout == Linear::Layout::kOutIn && is_plain(*layer, x);
                      });
  std::vector<at::Tensor> results, weights, biases;
  if (!joined) {
    for (const Linear* layer : layers) results.push_back((*layer)(x));
    return results;
  }
  std::vector<bool> biased;
  for (const Linear* layer : layers) {
    weights.push_back(device::autocast(layer->weight));
    biased.push_back(layer->bias.defined());
    if (biased.back()) biases.push_back(device::autocast(layer->bias));
  }
  return JointLinear::apply(device::autocast(x), at::TensorList(weights), at::TensorList(biases), biased);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  Linear::Layout layout) {
  if (std::shared_ptr<DeferredGradients> deferred = deferred_for(weight, bias))
    return split_linear(x, weight, bias, layout, std::move(deferred));
  return whole_linear(x, weight, bias, layout);
}

bool is_plain(const Linear& layer, const at::Tensor& x) {
  const int64_t outputs = layer.weight.size(layer.layout == Linear::Layout::kOutIn ? 0 : 1);
  return layer.operation == plain_linear() && !layer.product &&
         !pads(device::autocast(x), outputs, layer.layout) &&
         deferred_for(layer.weight, layer.bias) == nullptr;
}

std::shared_ptr<DeferredGradients> deferred_for(const at::Tensor& weight, const at::Tensor& bias) {
  const RunningUnit* const running = RunningUnit::find();
  const bool defers = running != nullptr && running->deferred() != nullptr && at::GradMode::is_enabled() &&
                      weight.requires_grad() && DeferredGradients::can_defer(weight) &&
                      (!bias.defined() || DeferredGradients::can_defer(bias));
  return defers ? running->deferred() : nullptr;
}

at::Tensor product(const Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& bias) {
  return layer.product ? layer.product->forward(layer, x, weight, bias)
                       : linear(x, weight, bias, layer.layout);
}

at::Tensor linear_input_gradient(const at::Tensor& dy, const at::Tensor& weight, Linear::Layout layout) {
  return input_gradient(dy, weight, layout, kernels::has_fast_product(dy));
}

at::Tensor linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x, Linear::Layout layout) {
  return weight_gradient(dy, x, layout, kernels::has_fast_product(dy));
}

at::Tensor linear_bias_gradient(const at::Tensor& dy) {
  const at::Tensor rows = rows_of(dy);
  return sums_columns(rows) && rows.is_contiguous() ? call<operators::ColumnSums>(rows) : rows.sum(0);
}

at::Tensor LinearOperation::cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                                              int64_t ignored, std::optional<double> gradient) const {
  return nn::cross_entropy_sum(logits, labels, ignored, gradient);
}

double LinearOperation::count_right(const at::Tensor& logits, const at::Tensor& labels,
                                    int64_t ignored) const {
  return RowLabels{labels, ignored}.accuracy(logits).sums[0];
}

at::Tensor cross_entropy_sum(const Linear& head, const at::Tensor& logits, const at::Tensor& labels,
                             int64_t ignored) {
  return head.operation->cross_entropy_sum(logits, head.operation->own_labels(labels), ignored, {});
}

Linear::Linear(int64_t in, int64_t out, bool bias, at::ScalarType dtype, Layout layout)
    : Linear(linear_weight(in, out, dtype, layout), bias ? meta({out}, dtype) : at::Tensor(), layout) {}

Linear::Linear(const at::Tensor& weight, const at::Tensor& bias, Layout layout)
    : layout(layout), operation(plain_linear()) {
  this->weight = register_parameter("weight", weight);
  if (bias.defined()) this->bias = register_parameter("bias", bias);
}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  return operation->forward(*this, x);
}

}  // namespace weft::nn
