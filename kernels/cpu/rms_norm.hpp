// RMSNorm (Zhang and Sennrich, Root mean square layer normalization, arXiv:1910.07467): y = x scale weight
// with scale = 1 / sqrt(mean(x²) + epsilon) of each row. N rows of C channels, contiguous. T: float, double,
// and c10::BFloat16 and c10::Half, which are computed in fp32, x scale rounded before the weight multiplies
// it.
#pragma once

#include <cstdint>

#include "cpu/exact.hpp"

namespace weft::kernels {

// scale: (N), for backward.
template <typename T>
void rms_norm_forward(int64_t rows, int64_t channels, Exact<T> epsilon, const T* x, const T* weight, T* y,
                      Exact<T>* scale);

// dx = residual + scale (g - x scale² mean(g x)) with g = dy weight. `residual` may be null, dx may be dy or
// residual.
template <typename T>
void rms_norm_backward(int64_t rows, int64_t channels, const T* x, const T* weight, const Exact<T>* scale,
                       const T* dy, const T* residual, T* dx);
// dweight = the sum over rows of dy x scale; the same whatever the number of threads.
template <typename T>
void rms_norm_weight_gradient(int64_t rows, int64_t channels, const T* x, const Exact<T>* scale, const T* dy,
                              Exact<T>* dweight);

}  // namespace weft::kernels
