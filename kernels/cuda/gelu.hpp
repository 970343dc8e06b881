// The gradient of GELU (formula/gelu.hpp), of (rows, channels) contiguous values. T: float, c10::BFloat16 or
// c10::Half, computed in fp32.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"
#include "formula/gelu.hpp"

namespace weft::kernels::cuda {

// How many parts the rows are first summed in.
int64_t gelu_parts(int64_t rows);

// dx = dy times the derivative at x; dx may be dy. sums[c] = the sum over rows of dx[row, c] before it is
// rounded, in the same order in each run. partial: (gelu_parts(rows), channels), working memory.
template <class T>
void gelu_backward(Gelu kind, int64_t rows, int64_t channels, const T* x, const T* dy, T* dx, float* partial,
                   T* sums, Stream stream);

}  // namespace weft::kernels::cuda
