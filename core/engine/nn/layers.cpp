#include "weft/nn/layers.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "base/text.hpp"
#include "cpu/product.hpp"

namespace weft::nn {

namespace {

at::Tensor meta(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

// Not a view for autograd: nothing else holds the memory, so that who comes next may write over it.
at::Tensor with_last(const at::Tensor& rows, const at::Tensor& like) {
  at::DimVector shape(like.sizes());
  shape.back() = rows.size(-1);
  return at::_unsafe_view(rows, shape);
}

// y = x w + b and its gradients as three products (product.hpp). w: (in, out), or (out, in) if `transposed`.
class FastLinear : public torch::autograd::Function<FastLinear> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& w, const std::optional<at::Tensor>& b, bool transposed) {
    context->save_for_backward({x, w});
    context->saved_data["transposed"] = transposed;
    context->saved_data["biased"] = b.has_value();
    return with_last(kernels::product(rows_of(x), transposed ? w : w.t(), b.value_or(at::Tensor())), x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      fail(WEFT_UNIMPLEMENTED,
           "linear: a gradient of its gradient was asked for (create_graph), which it has not");
    }
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &w = saved[1];
    const bool transposed = context->saved_data["transposed"].toBool();
    const at::Tensor rows = rows_of(x), dy = rows_of(gradients[0]);
    torch::autograd::variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = with_last(kernels::product(dy, transposed ? w.t() : w), x);
    if (context->needs_input_grad(1)) {
      result[1] = transposed ? kernels::product_over_rows(dy, rows) : kernels::product_over_rows(rows, dy);
    }
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(2)) result[2] = dy.sum(0);
    return result;
  }
};

// What libtorch's operation would save, where it cannot run without memory: the input, and two numbers a row.
class LayerNormOnMeta : public torch::autograd::Function<LayerNormOnMeta> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight) {
    const at::Tensor statistics = at::empty({rows_of(x).size(0)}, x.options());
    context->save_for_backward({x, weight, statistics, at::empty_like(statistics)});
    return at::empty_like(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    fail(WEFT_FAILED_PRECONDITION, "layer norm: the model has no memory; boost it before training");
  }
};

at::Tensor conv1d(const Linear& layer, const at::Tensor& x) {
  if (!layer.bias.defined()) return at::matmul(x, layer.weight);
  // One product with the bias in its result, over all leading dimensions at once.
  return with_last(at::addmm(layer.bias, rows_of(x), layer.weight), x);
}

class PlainLinear final : public LinearOperation {
 public:
  std::string id() const override { return "weft.linear/1"; }
  at::Tensor forward(const Linear& layer, const at::Tensor& x) const override {
    const bool transposed = layer.layout == Linear::Layout::kOutIn;
    // Autocast works on libtorch's own operations.
    if (kernels::has_fast_product(x) && !at::autocast::is_autocast_enabled(at::kCPU)) {
      const std::optional<at::Tensor> bias = layer.bias.defined() ? std::optional(layer.bias) : std::nullopt;
      return FastLinear::apply(x, layer.weight, bias, transposed);
    }
    return transposed ? at::linear(x, layer.weight, layer.bias) : conv1d(layer, x);
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

Embedding::Embedding(int64_t count, int64_t channels, at::ScalarType dtype) {
  weight = register_parameter("weight", meta({count, channels}, dtype));
}

at::Tensor Embedding::operator()(const at::Tensor& ids) const {
  check_ids(ids, weight.size(0), "embedding");
  if (weight.is_meta()) {  // libtorch has no such operation without memory
    at::DimVector shape(ids.sizes());
    shape.push_back(weight.size(1));
    return meta(shape, weight.scalar_type());
  }
  return at::embedding(weight, ids);
}

LayerNorm::LayerNorm(int64_t channels, double epsilon, at::ScalarType dtype) : epsilon(epsilon) {
  weight = register_parameter("weight", meta({channels}, dtype));
  bias = register_parameter("bias", meta({channels}, dtype));
}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  if (x.is_meta()) return LayerNormOnMeta::apply(x, weight);
  return at::layer_norm(x, weight.sizes(), weight, bias, epsilon);
}

at::Tensor Dropout::operator()(const at::Tensor& x) const {
  return is_training() && probability > 0 ? at::dropout(x, probability, true) : x;
}

void check_ids(const at::Tensor& ids, int64_t count, std::string_view what, std::optional<int64_t> ignored) {
  if (ids.scalar_type() != at::kLong) {
    fail(WEFT_INVALID_ARGUMENT, "{}: ids are {}, must be int64", what, c10::toString(ids.scalar_type()));
  }
  // On an accelerator this would wait for it; its kernels check for themselves.
  if (!ids.is_cpu()) return;
  const at::Tensor contiguous = ids.contiguous();
  const int64_t* first = contiguous.const_data_ptr<int64_t>();
  const int64_t* last = first + contiguous.numel();
  const int64_t* wrong = std::find_if(
      first, last, [&](int64_t id) { return (id < 0 || id >= count) && (!ignored || id != *ignored); });
  if (wrong == last) return;
  std::vector<int64_t> position(ids.dim());
  int64_t flat = wrong - first;
  for (int64_t dim = ids.dim() - 1; dim >= 0; flat /= ids.size(dim), --dim)
    position[dim] = flat % ids.size(dim);
  fail(WEFT_INVALID_ARGUMENT, "{}: the value {} at [{}] is out of range, must be 0 to {}{}", what, *wrong,
       fmt::join(position, ", "), count - 1, ignored ? fmt::format(", or {} to be ignored", *ignored) : "");
}

}  // namespace weft::nn
