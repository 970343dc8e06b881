#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "cpu/attention.hpp"
#include "nn/random_stream.hpp"
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
  const RandomStream random(options.dropout > 0 ? options.stream : 0);
  if (!mask.defined()) {
    return at::scaled_dot_product_attention(q, k, v, {}, options.dropout, options.causal, options.scale);
  }
  at::Tensor allowed = additive(mask, q.scalar_type());
  if (options.causal) allowed = with_causal(allowed, q.size(-2), k.size(-2));
  return at::scaled_dot_product_attention(q, k, v, allowed, options.dropout, false, options.scale);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// part: 0, 1, 2 for q, k, v of (B, T, 3, H, D)
template <typename T>
kernels::HeadsOf<T> heads_of(const at::Tensor& qkv, int64_t part) {
  T* data = static_cast<float*>(qkv.data_ptr()) + part * qkv.stride(2);
  return {data, qkv.stride(0), qkv.stride(3), qkv.stride(1)};
}
template <typename T>
kernels::HeadsOf<T> heads_of(const at::Tensor& mixed, const kernels::AttentionShape& shape) {
  return {static_cast<float*>(mixed.data_ptr()), mixed.stride(0), shape.size, mixed.stride(1)};
}

class FusedSelfAttention : public torch::autograd::Function<FusedSelfAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, bool causal, double scale) {
    const kernels::AttentionShape shape = shape_of(qkv, causal, scale);
    const at::Tensor out = at::empty({shape.batch, shape.positions, shape.heads * shape.size}, qkv.options());
    const at::Tensor log_sum_exp = at::empty({shape.batch, shape.heads, shape.positions}, qkv.options());
    if (!qkv.is_meta())
      kernels::attention_forward(shape, heads_of<const float>(qkv, 0), heads_of<const float>(qkv, 1),
                                 heads_of<const float>(qkv, 2), heads_of<float>(out, shape),
                                 log_sum_exp.mutable_data_ptr<float>());
    context->save_for_backward({qkv, out, log_sum_exp});
    context->saved_data["causal"] = causal;
    context->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      fail(WEFT_UNIMPLEMENTED,
           "attention: a gradient of its gradient was asked for (create_graph), which it has not");
    }
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &qkv = saved[0], &out = saved[1], up = gradients[0].contiguous();
    const kernels::AttentionShape shape =
        shape_of(qkv, context->saved_data["causal"].toBool(), context->saved_data["scale"].toDouble());
    const at::Tensor result = at::empty(qkv.sizes(), qkv.options());
    kernels::attention_backward(
        shape, heads_of<const float>(qkv, 0), heads_of<const float>(qkv, 1), heads_of<const float>(qkv, 2),
        heads_of<const float>(out, shape), heads_of<const float>(up, shape), saved[2].const_data_ptr<float>(),
        {heads_of<float>(result, 0), heads_of<float>(result, 1), heads_of<float>(result, 2)});
    return {result, {}, {}};
  }

 private:
  static kernels::AttentionShape shape_of(const at::Tensor& qkv, bool causal, double scale) {
    return {qkv.size(0), qkv.size(3), qkv.size(1), qkv.size(4), causal, static_cast<float>(scale)};
  }
};

}  // namespace

at::Tensor self_attention(const at::Tensor& qkv, const at::Tensor& mask, const AttentionOptions& options) {
  // Without memory (meta) it tells the shapes of what a fused kernel of any dtype saves: an estimate counts
  // them.
  const bool own_kernel = qkv.is_meta() || (qkv.is_cpu() && qkv.scalar_type() == at::kFloat &&
                                            kernels::attention_takes(qkv.size(4)));
  const bool fused = own_kernel && qkv.stride(-1) == 1 && !mask.defined() && options.dropout == 0;
  if (fused) {
    const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(qkv.size(4))));
    return FusedSelfAttention::apply(qkv, options.causal, scale);
  }
  const std::vector<at::Tensor> parts = qkv.unbind(2);
  const at::Tensor mixed =
      attention(parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2), mask, options);
  return mixed.transpose(1, 2).reshape({qkv.size(0), qkv.size(1), qkv.size(3) * qkv.size(4)});
}

}  // namespace weft::nn
