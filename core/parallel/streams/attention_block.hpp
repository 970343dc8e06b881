// Attention of queries to one block of keys. The results of several blocks are merged into attention to all
// keys (FlashAttention, Dao et al., arXiv:2205.14135, section 3.1).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft::parallel {

// The queries and the block of keys and values that they attend to. Shapes: B batch, H heads of queries, G
// heads of keys and values, t queries, s keys, D channels of a head.
struct AttentionBlock {
  // q: (B, H, t, D); k, v: (B, G, s, D), each shared by H / G heads of q. `bias` is additive and broadcasts
  // to (B, H, t, s), or undefined.
  at::Tensor q, k, v, bias;
  bool causal = false;  // query i attends to keys 0 ... i
  double scale = 1;
  double soft_cap = 0;       // see nn::AttentionOptions
  bool fused = true;         // uses a fused kernel if there is one for these arguments
  double dropout = 0;        // probability of dropping an attention weight
  uint64_t seed = 0;         // of the dropout mask
  bool learns_bias = false;  // `bias` requires grad, which the fused kernel does not support
};

// The result of attention to one block: `out` (B, H, t, D) and `log_sum_exp` (B, H, t), the logarithm of the
// sum of the exponentials of the scores. Both are fp32 if the inputs are in half precision.
struct AttentionPart {
  at::Tensor out, log_sum_exp;
};
// Computes attention to the keys of `block` alone.
AttentionPart attend(const AttentionBlock& block);

// Merges `part` into `sum`, the result for other keys, in place: `sum` becomes the result for all of them.
void merge(AttentionPart& sum, const AttentionPart& part);

// The gradients of a block's tensors, in their shapes. `dbias` is defined if the block learns its bias.
struct AttentionGradients {
  at::Tensor dq, dk, dv, dbias;
};
// Returns what `block` contributes to the gradients. `whole` is the merged result for all keys, `gradient`
// the gradient of whole.out.
AttentionGradients attend_backward(const AttentionBlock& block, const AttentionPart& whole,
                                   const at::Tensor& gradient);

}  // namespace weft::parallel
