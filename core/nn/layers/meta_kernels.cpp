// Kernels on the meta device for operations that have one only in Python's PyTorch. `weft plan` runs models
// on this device to measure their activations.
#include <ATen/AccumulateType.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace weft::nn {

namespace {

using at::Tensor;

Tensor same_shape(const Tensor& x) {
  return at::empty_like(x);
}

Tensor hardtanh(const Tensor& x, const at::Scalar&, const at::Scalar&) {
  return at::empty_like(x);
}

Tensor embedding(const Tensor& weight, const Tensor& ids, int64_t, bool, bool) {
  at::DimVector shape(ids.sizes());
  shape.push_back(weight.size(1));
  return at::empty(shape, weight.options());
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& x, at::IntArrayRef normalized,
                                              const std::optional<Tensor>&, const std::optional<Tensor>&,
                                              double) {
  at::DimVector shape(x.sizes());
  std::fill(shape.end() - static_cast<std::ptrdiff_t>(normalized.size()), shape.end(), 1);
  const at::TensorOptions statistics =
      x.options().dtype(at::toAccumulateType(x.scalar_type(), /*is_cuda=*/true));
  return {at::empty_like(x), at::empty(shape, statistics), at::empty(shape, statistics)};
}

Tensor& logical_not(const Tensor& x, Tensor& result) {
  result.resize_(x.sizes());
  return result;
}

std::vector<int64_t> shape_of_where(const Tensor& condition, const Tensor& x, const Tensor& y) {
  return at::infer_size(condition.sizes(), at::infer_size(x.sizes(), y.sizes()));
}

Tensor where(const Tensor& condition, const Tensor& x, const Tensor& y) {
  return at::empty(shape_of_where(condition, x, y), condition.options().dtype(at::result_type(x, y)));
}

Tensor& where_out(const Tensor& condition, const Tensor& x, const Tensor& y, Tensor& result) {
  result.resize_(shape_of_where(condition, x, y));
  return result;
}

// The backend of devices that libtorch does not know, to which a convolution on the meta device dispatches.
Tensor convolution(const Tensor& x, const Tensor& weight, const std::optional<Tensor>&,
                   at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                   at::IntArrayRef output_padding, int64_t groups) {
  at::DimVector shape = {x.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (int64_t d = 0; d + 2 < x.dim(); ++d) {
    const int64_t size = x.size(d + 2), reach = dilation[d] * (weight.size(d + 2) - 1);
    shape.push_back(transposed ? (size - 1) * stride[d] - 2 * padding[d] + reach + output_padding[d] + 1
                               : (size + 2 * padding[d] - reach - 1) / stride[d] + 1);
  }
  return at::empty(shape, x.options());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("convolution_overrideable", convolution);
  library.impl("embedding", embedding);
  library.impl("hardswish", same_shape);
  library.impl("hardtanh", hardtanh);
  library.impl("logical_not.out", logical_not);
  library.impl("native_layer_norm", layer_norm);
  library.impl("relu", same_shape);
  library.impl("where.self", where);
  library.impl("where.self_out", where_out);
}

}  // namespace weft::nn
