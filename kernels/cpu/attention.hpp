// Softmax attention in fp32 whose scores never leave the cache (T. Dao et al., FlashAttention,
// arXiv:2205.14135, here with whole rows of scores for a block of queries). B batch, H heads, T queries, S
// keys, D values of a head.
#pragma once

#include <cstdint>

namespace weft::kernels {

// Positions of a sample that attend to each other alone.
struct AttentionSpan {
  int64_t sample, begin, count;
};

struct AttentionShape {
  int64_t batch, heads, queries, keys, size;  // B, H, T, S, D; D is a multiple of 16
  bool causal;                                // query i attends to keys 0 ... i; then T is S
  float scale;                                // of the scores
  int64_t shared = 1;  // so many heads of q, one after the other, share one of k and v: grouped queries
  int64_t window = 0;  // if not 0 and causal, query i attends to i - window + 1 ... i
  // If there are any, attention of each span by itself, in place of whole samples; then T is S. They do not
  // overlap, and what lies in no span stays as it is.
  const AttentionSpan* spans = nullptr;
  int64_t num_spans = 0;
  // Dropout of the probabilities: each is kept with this probability, and divided by it. The mask follows
  // from the seed and the shape; backward draws it again.
  double kept = 1;
  uint64_t seed = 0;
};

// (B, H, T, D), of k and v (B, H / shared, S, D), with the last dimension contiguous; the others this many
// floats apart.
template <typename T>
struct HeadsOf {
  T* data;
  int64_t batch, head, position;
};
using ConstHeads = HeadsOf<const float>;
using Heads = HeadsOf<float>;

// What is added to the scaled scores, (B, H, T, S) with the last dimension contiguous: 0 apart where one
// serves all samples, heads or queries. A query whose keys all have -infinity attends to nothing; its result
// is 0.
template <typename T>
struct BiasOf {
  T* data = nullptr;  // null: nothing is added
  int64_t batch = 0, head = 0, query = 0;
};
using ConstBias = BiasOf<const float>;
using Bias = BiasOf<float>;

// True for what the functions below can do.
bool attention_takes(int64_t size);

// out = dropout(softmax(scale q kᵀ + bias)) v; log_sum_exp (B, H, T) is for backward.
void attention_forward(const AttentionShape& shape, const ConstHeads& q, const ConstHeads& k,
                       const ConstHeads& v, const ConstBias& bias, const Heads& out, float* log_sum_exp);

struct AttentionGradients {
  Heads q, k, v;
  Bias bias = {};  // if its data are not null: of each head and query, summed over samples that are 0 apart
};
// Recomputes the probabilities, block by block of queries.
void attention_backward(const AttentionShape& shape, const ConstHeads& q, const ConstHeads& k,
                        const ConstHeads& v, const ConstBias& bias, const ConstHeads& out,
                        const ConstHeads& out_gradient, const float* log_sum_exp,
                        const AttentionGradients& gradients);

}  // namespace weft::kernels
