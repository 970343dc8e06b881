// Layer normalization (Ba et al., arXiv:1607.06450): y = (x - mean) scale weight + bias with scale =
// 1 / sqrt(variance + epsilon) of each row, the variance that of the row itself, from centred values. N rows
// of C contiguous channels. T: float, c10::BFloat16 or c10::Half, computed in fp32 and rounded once.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"

namespace weft::kernels::cuda {

// mean, scale: (N), for backward.
template <class T>
void layer_norm_forward(int64_t rows, int64_t channels, float epsilon, const T* x, const T* weight,
                        const T* bias, T* y, float* mean, float* scale, Stream stream);

// A block has room for the gradients of this many channels, whatever the type.
constexpr int64_t kMostChannelsOfLayerNorm = 12288;

// How many rows the gradients of weight and bias are first summed in, a number that depends on the shape
// alone.
int64_t layer_norm_parts(int64_t rows);

// dx = residual + scale (g - mean(g) - n mean(g n)) with g = dy weight and n = (x - mean) scale; `residual`
// may be null, dx may be dy or residual. dweight = the sum over rows of dy n, dbias = that of dy, in the same
// order in each run. partial: (2, layer_norm_parts(rows), C), working memory; it, dweight and dbias may be
// null, all of them, if only dx is wanted. Throws std::invalid_argument for more channels than shared memory
// has room for.
template <class T>
void layer_norm_backward(int64_t rows, int64_t channels, const T* x, const T* weight, const float* mean,
                         const float* scale, const T* dy, const T* residual, T* dx, float* partial,
                         T* dweight, T* dbias, Stream stream);

}  // namespace weft::kernels::cuda
