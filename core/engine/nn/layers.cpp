#include "weft/nn/layers.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>

#include <algorithm>

#include "base/text.hpp"

namespace weft::nn {

namespace {

at::Tensor meta(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

at::Tensor conv1d(const Linear& layer, const at::Tensor& x) {
  if (!layer.bias.defined()) return at::matmul(x, layer.weight);
  // One product with the bias in its result, over all leading dimensions at once.
  at::DimVector shape(x.sizes());
  shape.back() = layer.weight.size(1);
  return at::addmm(layer.bias, x.reshape({-1, x.size(-1)}), layer.weight).view(shape);
}

class PlainLinear final : public LinearOperation {
 public:
  std::string id() const override { return "weft.linear/1"; }
  at::Tensor forward(const Linear& layer, const at::Tensor& x) const override {
    if (layer.layout == Linear::Layout::kInOut) return conv1d(layer, x);
    return at::linear(x, layer.weight, layer.bias);
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
  return at::embedding(weight, ids);
}

LayerNorm::LayerNorm(int64_t channels, double epsilon, at::ScalarType dtype) : epsilon(epsilon) {
  weight = register_parameter("weight", meta({channels}, dtype));
  bias = register_parameter("bias", meta({channels}, dtype));
}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
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
