// RMSNorm (Zhang and Sennrich, Root mean square layer normalization, arXiv:1910.07467) in fp32:
// y = x scale weight with scale = 1 / sqrt(mean(x²) + epsilon) of each row. N rows of C channels, contiguous.
#pragma once

#include <cstdint>

namespace weft::kernels {

// scale: (N), for backward.
void rms_norm_forward(int64_t rows, int64_t channels, float epsilon, const float* x, const float* weight,
                      float* y, float* scale);

// dx = scale (g - x scale² mean(g x)) with g = dy weight. dx may be dy.
void rms_norm_backward(int64_t rows, int64_t channels, const float* x, const float* weight,
                       const float* scale, const float* dy, float* dx);
// dweight = the sum over rows of dy x scale; the same whatever the number of threads.
void rms_norm_weight_gradient(int64_t rows, int64_t channels, const float* x, const float* scale,
                              const float* dy, float* dweight);

}  // namespace weft::kernels
