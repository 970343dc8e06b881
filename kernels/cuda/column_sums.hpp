// Sums over the rows of a matrix, such as the gradient of a bias. T: float, c10::BFloat16 or c10::Half,
// added up in fp32, in an order that depends on the shape alone.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"

namespace weft::kernels::cuda {

// How many parts the rows are first summed in, a number that depends on the shape alone.
int64_t column_sum_parts(int64_t rows, int64_t channels);

// sums[c] = the sum over rows of x[row, c]; 0 without rows. x: (rows, channels) contiguous. partial:
// (column_sum_parts(rows, channels), channels), working memory.
template <class T>
void column_sums(int64_t rows, int64_t channels, const T* x, float* partial, T* sums, Stream stream);

}  // namespace weft::kernels::cuda
