// Softmax attention in fp32 whose scores never leave the cache (T. Dao et al., FlashAttention,
// arXiv:2205.14135, here with whole rows of scores for a block of queries). B batch, H heads, T positions, D
// values of a head.
#pragma once

#include <cstdint>

namespace weft::kernels {

struct AttentionShape {
  int64_t batch, heads, positions, size;  // B, H, T, D; D is a multiple of 16
  bool causal;                            // position i attends to 0 ... i
  float scale;                            // of the scores
  int64_t shared = 1;  // so many heads of q, one after the other, share one of k and v: grouped queries
  int64_t window = 0;  // if not 0 and causal, position i attends to i - window + 1 ... i
};

// (B, H, T, D), of k and v (B, H / shared, T, D), with the last dimension contiguous; the others this many
// floats apart.
template <typename T>
struct HeadsOf {
  T* data;
  int64_t batch, head, position;
};
using ConstHeads = HeadsOf<const float>;
using Heads = HeadsOf<float>;

// True for what the functions below can do.
bool attention_takes(int64_t size);

// out = softmax(scale q kᵀ) v; log_sum_exp (B, H, T) is for backward.
void attention_forward(const AttentionShape& shape, const ConstHeads& q, const ConstHeads& k,
                       const ConstHeads& v, const Heads& out, float* log_sum_exp);

struct AttentionGradients {
  Heads q, k, v;
};
// Recomputes the probabilities, block by block of queries.
void attention_backward(const AttentionShape& shape, const ConstHeads& q, const ConstHeads& k,
                        const ConstHeads& v, const ConstHeads& out, const ConstHeads& out_gradient,
                        const float* log_sum_exp, const AttentionGradients& gradients);

}  // namespace weft::kernels
