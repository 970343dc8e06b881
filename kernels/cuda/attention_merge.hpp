// Merges attention to two sets of keys into attention to both (FlashAttention, Dao et al., arXiv:2205.14135,
// section 3.1): ring attention adds the block of each rank that way.
#pragma once

#include <cstdint>

#include "cpu/attention.hpp"
#include "cuda/stream.hpp"

namespace weft::kernels::cuda {

struct MergeShape {
  int64_t batch, heads, positions, size;  // B, H, T, D
};

// Merges `part` into `sum`, in place. Both are (B, H, T, D) with the last dimension contiguous; log_sum_exp
// is (B, H, T), contiguous. T: float, c10::BFloat16 or c10::Half, of the part. A row that attends to no key
// has log_sum_exp -infinity and counts nothing.
template <class T>
void merge_attention(const MergeShape& shape, const Heads& sum, float* log_sum_exp,
                     const HeadsOf<const T>& part, const float* part_log_sum_exp, Stream stream);

}  // namespace weft::kernels::cuda
