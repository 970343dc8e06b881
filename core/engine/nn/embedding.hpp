// Looks up rows of an embedding table.
#pragma once

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

namespace weft::nn {

// Returns the rows of `ids` (...) as (..., C), like at::embedding. Also works on the meta device, where
// libtorch has no kernel for it.
inline at::Tensor looked_up(const at::Tensor& weight, const at::Tensor& ids, int64_t padding) {
  if (!weight.is_meta()) return at::embedding(weight, ids, padding);
  at::DimVector shape(ids.sizes());
  shape.push_back(weight.size(1));
  return at::empty(shape, weight.options());
}

}  // namespace weft::nn
