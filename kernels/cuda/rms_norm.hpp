// RMSNorm as on the CPU (cpu/rms_norm.hpp): y = x scale weight with scale = 1 / sqrt(mean(x²) + epsilon), N
// rows of C contiguous channels. T: float, c10::BFloat16 or c10::Half, computed in fp32, x scale rounded
// before the weight multiplies it.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"

namespace weft::kernels::cuda {

// scale: (N), for backward.
template <class T>
void rms_norm_forward(int64_t rows, int64_t channels, float epsilon, const T* x, const T* weight, T* y,
                      float* scale, Stream stream);

// How many rows the weight's gradient is first summed in, a number that depends on the shape alone.
int64_t rms_norm_parts(int64_t rows);

// dx = residual + scale (g - x scale² mean(g x)) with g = dy weight; `residual` may be null, dx may be dy or
// residual. dweight = the sum over rows of dy x scale, in the same order in each run. partial:
// (rms_norm_parts(rows), C), working memory; it and dweight may be null if the weight needs no gradient.
// Throws std::invalid_argument for more channels than shared memory has room for.
template <class T>
void rms_norm_backward(int64_t rows, int64_t channels, const T* x, const T* weight, const float* scale,
                       const T* dy, const T* residual, T* dx, float* partial, T* dweight, Stream stream);

}  // namespace weft::kernels::cuda
