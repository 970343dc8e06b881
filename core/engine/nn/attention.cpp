#include <ATen/Dispatch.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "weft/nn/layers.hpp"

namespace weft::nn {

namespace {

double lowest(at::ScalarType dtype) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "lowest", [] {
    return static_cast<double>(std::numeric_limits<scalar_t>::lowest());
  });
}

// Additive, finite at forbidden places (as Hugging Face's eager attention), so that a row without a single
// key has finite values and gradients: exp(-inf - -inf) is none.
at::Tensor additive(const at::Tensor& mask, at::ScalarType dtype) {
  if (mask.scalar_type() != at::kBool) return mask.to(dtype);
  return at::zeros(mask.sizes(), mask.options().dtype(dtype)).masked_fill_(mask.logical_not(), lowest(dtype));
}

// The diagonal stays what `mask` says, thus finite.
at::Tensor with_causal(const at::Tensor& mask, int64_t queries, int64_t keys) {
  const at::Tensor later = at::ones({queries, keys}, mask.options().dtype(at::kBool)).triu_(1);
  return mask.masked_fill(later, -std::numeric_limits<double>::infinity());
}

}  // namespace

// libtorch's function takes its fused kernel where that is exact (no dropout; strides of any kind), the
// formula otherwise.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                     const AttentionOptions& options) {
  if (options.upcast && at::isReducedFloatingType(q.scalar_type())) {
    AttentionOptions same = options;
    same.upcast = false;
    return attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), mask, same).to(v.scalar_type());
  }
  if (!mask.defined()) {
    return at::scaled_dot_product_attention(q, k, v, {}, options.dropout, options.causal, options.scale);
  }
  at::Tensor allowed = additive(mask, q.scalar_type());
  if (options.causal) allowed = with_causal(allowed, q.size(-2), k.size(-2));
  return at::scaled_dot_product_attention(q, k, v, allowed, options.dropout, false, options.scale);
}

}  // namespace weft::nn
