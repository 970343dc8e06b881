// Cross entropy of rows of logits with labels. V: classes (the vocabulary). Forward reads the logits once,
// backward once, and it may write its gradient over them. Where the gradient of the sum is known beforehand,
// one kernel does both. T: float, c10::BFloat16 or c10::Half, computed in fp32. All addresses are in device
// memory. Labels mean what they mean for the CPU (cpu/cross_entropy.hpp).
//
// A vocabulary that is split over ranks: cross_entropy_parts, the all-reduce of the largest logits,
// cross_entropy_rebase, the all-reduce of the sums, cross_entropy_finish; backward is the same.
#pragma once

#include "cpu/cross_entropy.hpp"
#include "cuda/stream.hpp"

namespace weft::kernels::cuda {

// Rows of V contiguous values each, which begin `stride` elements apart. What lies between them is neither
// read nor written.
template <class T>
struct SpacedRows {
  T* first;
  int64_t stride;
};

// Fills normalisers[row] and losses[row] = log_sum + peak - logits[label]; both are 0 for rows that count
// nothing, and a loss is log_sum + peak if the label is kElsewhere.
template <class T>
void cross_entropy_forward(const CrossEntropyRows& shape, SpacedRows<const T> logits,
                           RowNormaliser<float>* normalisers, float* losses, Stream stream);

// *sum = the sum of `losses`, added in double in an order that depends on their number alone.
void sum_losses(int64_t rows, const float* losses, float* sum, Stream stream);

// gradient[row, v] = *scale (exp(logits[row, v] - peak - log_sum) - [v is the label]), 0 for rows that count
// nothing. `gradient` may be `logits`.
template <class T>
void cross_entropy_backward(const CrossEntropyRows& shape, SpacedRows<const T> logits,
                            const RowNormaliser<float>* normalisers, const float* scale,
                            SpacedRows<T> gradient, Stream stream);

// Forward and backward in one kernel: fills `losses`, and overwrites the logits with their gradient for
// `scale`. It reads each row twice, the second time from the L2 cache if the rows of all running blocks fit
// into it.
template <class T>
void cross_entropy_with_gradient(const CrossEntropyRows& shape, SpacedRows<T> logits, float scale,
                                 float* losses, Stream stream);

// Multiplies rows of `count` values by *actual / expected, unless the two are equal: then it reads nothing.
template <class T>
void rescale(int64_t rows, int64_t count, SpacedRows<T> x, const float* actual, float expected,
             Stream stream);

// This rank's classes, of which there may be none. peaks: (rows), the largest logit; sums: (2, rows), the sum
// of exp(logit - peak) and the logit of the label, 0 if it is not here. Rows that count nothing have the peak
// -infinity.
template <class T>
void cross_entropy_parts(const CrossEntropyRows& shape, SpacedRows<const T> logits, float* peaks, float* sums,
                         Stream stream);
// Makes the sums relative to `all`, the peaks over all ranks, so that they can be added up.
void cross_entropy_rebase(const CrossEntropyRows& shape, const float* peaks, const float* all, float* sums,
                          Stream stream);
// Normalisers and losses of the whole vocabulary, from the peaks and sums of all ranks.
void cross_entropy_finish(const CrossEntropyRows& shape, const float* all, const float* sums,
                          RowNormaliser<float>* normalisers, float* losses, Stream stream);

}  // namespace weft::kernels::cuda
