// Attention of some queries to some keys, whose result is a part of that to all keys.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft::parallel {

struct AttentionBlock {
  // q: (B, H, t, D); k, v: (B, G, s, D), each for H / G heads of q; `bias`: additive, broadcasts to (B, H, t,
  // s), or undefined.
  at::Tensor q, k, v, bias;
  bool causal = false;  // query i attends to keys 0 ... i
  double scale = 1;
  bool fused = true;   // one kernel, where there is one for this
  double dropout = 0;  // of the probabilities, with the masks of `seed`
  uint64_t seed = 0;
  bool learns_bias = false;  // the gradient of `bias` is wanted, which the kernel does not give
};

// As attention to these keys alone: (B, H, t, D), and the logarithm of the sum of exponentials (B, H, t), in
// fp32 for half precision.
struct AttentionPart {
  at::Tensor out, log_sum_exp;
};
AttentionPart attend(const AttentionBlock& block);

// Adds `part` to `sum`, which has attended to other keys: sum.out becomes attention to all of them.
void merge(AttentionPart& sum, const AttentionPart& part);

// The gradients that come of this block, of the whole result: `out`, `log_sum_exp` and `gradient` are those
// of attention to all keys. dk, dv: as k and v; dbias: as bias, where it is wanted.
struct AttentionGradients {
  at::Tensor dq, dk, dv, dbias;
};
AttentionGradients attend_backward(const AttentionBlock& block, const AttentionPart& whole,
                                   const at::Tensor& gradient);

}  // namespace weft::parallel
