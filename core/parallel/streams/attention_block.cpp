#include "streams/attention_block.hpp"

#include <ATen/AccumulateType.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include <limits>
#include <tuple>

#include "device/random.hpp"
#include "dispatch/compositions.hpp"
#include "dispatch/operators.hpp"

namespace weft::parallel {

namespace {

bool has_kernel(const AttentionBlock& block) {
  return block.fused && block.dropout == 0 && block.soft_cap == 0 && device::is_on_host(block.q);
}

at::ScalarType exact_type(const at::Tensor& x) {
  return at::toAccumulateType(x.scalar_type(), /*is_cuda=*/true);
}

// Repeats the heads of `x` so that there is one for each head of `q`.
at::Tensor repeated(const at::Tensor& x, const at::Tensor& q) {
  return x.size(1) == q.size(1) ? x : x.repeat_interleave(q.size(1) / x.size(1), 1);
}
// Sums the gradient of repeated heads to the shape of `x`.
at::Tensor summed_by_head(const at::Tensor& gradient, const at::Tensor& x) {
  return gradient.size(1) == x.size(1) ? gradient : gradient.unflatten(1, {x.size(1), -1}).sum(2);
}

// Returns the additive bias with later positions masked.
at::Tensor with_causal(const AttentionBlock& block) {
  const at::Tensor later =
      at::ones({block.q.size(2), block.k.size(2)}, block.q.options().dtype(at::kBool)).triu_(1);
  return block.bias.masked_fill(later, -std::numeric_limits<double>::infinity());
}

// Returns the attention scores, in the precision of `q` and `k`. `slope` receives the derivative of the soft
// cap at each of them, if there is one and it is wanted.
at::Tensor scores(const AttentionBlock& block, const at::Tensor& q, const at::Tensor& k,
                  at::Tensor* slope = nullptr) {
  at::Tensor scores = at::matmul(q, k.transpose(-1, -2)).mul_(block.scale);
  if (block.soft_cap != 0) {
    scores.div_(block.soft_cap).tanh_();
    if (slope != nullptr) *slope = 1 - scores.square();
    scores.mul_(block.soft_cap);
  }
  if (block.bias.defined()) scores = scores + block.bias;
  if (!block.causal) return scores;
  const at::Tensor later = at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).triu_(1);
  return scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
}

// Returns the factor of each probability under dropout: 0, or 1 / (1 - dropout).
at::Tensor kept(const AttentionBlock& block, const at::Tensor& like) {
  at::Tensor drawn = at::empty(like.sizes(), like.options().device(device::kHost));
  drawn.bernoulli_(1 - block.dropout, device::host_generator(block.seed));
  return device::on_device(drawn).div_(1 - block.dropout);
}

// Returns the arguments `is_causal` and `attn_mask` of the kernel, which takes only one of them.
std::tuple<bool, at::Tensor> causal_and_bias(const AttentionBlock& block) {
  if (!block.bias.defined()) return {block.causal, at::Tensor()};
  return {false, (block.causal ? with_causal(block) : block.bias).to(block.q.scalar_type())};
}

}  // namespace

AttentionPart attend(const AttentionBlock& block) {
  if (block.q.is_meta()) {  // some operations below have no Meta kernel
    const auto options = block.q.options().dtype(exact_type(block.q));
    return {at::empty(block.q.sizes(), options), at::empty(block.q.sizes().slice(0, 3), options)};
  }
  const at::Tensor k = repeated(block.k, block.q), v = repeated(block.v, block.q);
  if (has_kernel(block)) {
    const auto [causal, bias] = causal_and_bias(block);
    const auto [out, log_sum_exp] = at::_scaled_dot_product_flash_attention_for_cpu(
        block.q, k, v, 0, causal, bias.defined() ? std::optional(bias) : std::nullopt, block.scale);
    return {out.to(exact_type(out)), log_sum_exp};
  }
  const at::ScalarType exact = exact_type(block.q);
  const at::Tensor logits = scores(block, block.q.to(exact), k.to(exact));
  const at::Tensor log_sum_exp = at::logsumexp(logits, {-1});
  at::Tensor probabilities = logits.sub(log_sum_exp.unsqueeze(-1)).exp_();
  if (block.dropout > 0) probabilities = probabilities.mul_(kept(block, probabilities));
  return {at::matmul(probabilities, v.to(exact)), log_sum_exp};
}

void merge(AttentionPart& sum, const AttentionPart& part) {
  if (has_layer_kernel<operators::MergeAttention>(sum.out))
    call<operators::MergeAttention>(sum.out, sum.log_sum_exp, part.out, part.log_sum_exp);
  else
    merge_by_operations(sum.out, sum.log_sum_exp, part.out, part.log_sum_exp);
}

AttentionGradients attend_backward(const AttentionBlock& block, const AttentionPart& whole,
                                   const at::Tensor& gradient) {
  const at::Tensor k = repeated(block.k, block.q), v = repeated(block.v, block.q);
  if (has_kernel(block) && !block.learns_bias) {
    const auto [causal, bias] = causal_and_bias(block);
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, block.q, k, v, whole.out.to(block.q.scalar_type()), whole.log_sum_exp, 0, causal,
        bias.defined() ? std::optional(bias) : std::nullopt, block.scale);
    return {dq, summed_by_head(dk, block.k), summed_by_head(dv, block.k), {}};
  }
  const at::ScalarType exact = exact_type(block.q);
  const at::Tensor q = block.q.to(exact), keys = k.to(exact), up = gradient.to(exact);
  at::Tensor slope;  // of the soft cap
  at::Tensor probabilities = scores(block, q, keys, &slope).sub_(whole.log_sum_exp.unsqueeze(-1)).exp_();
  at::Tensor dp = at::matmul(up, v.to(exact).transpose(-1, -2));
  at::Tensor dropped = probabilities;
  if (block.dropout > 0) {
    const at::Tensor factor = kept(block, probabilities);
    dropped = probabilities * factor;
    dp.mul_(factor);
  }
  const at::Tensor dv = at::matmul(dropped.transpose(-1, -2), up);
  const at::Tensor ds = dp.sub_(up.mul(whole.out.to(exact)).sum(-1, true)).mul_(probabilities);
  const at::Tensor dbias = block.learns_bias ? at::sum_to(ds, block.bias.sizes()) : at::Tensor();
  const at::Tensor scaled = block.learns_bias ? ds.mul(block.scale) : ds.mul_(block.scale);
  if (slope.defined()) scaled.mul_(slope);
  return {at::matmul(scaled, keys), summed_by_head(at::matmul(scaled.transpose(-1, -2), q), block.k),
          summed_by_head(dv, block.k), dbias};
}

}  // namespace weft::parallel
