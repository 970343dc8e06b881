// GELU (formula/gelu.hpp). One exponential and one division a value, without the cancellation of 1 + erf and
// 1 + tanh.
#pragma once

#include <cstdint>

#include "formula/gelu.hpp"

namespace weft::kernels {

// y may be x.
void gelu_forward(Gelu kind, int64_t count, const float* x, float* y);
// dx = dy times the derivative at x. dx may be dy.
void gelu_backward(Gelu kind, int64_t count, const float* x, const float* dy, float* dx);

}  // namespace weft::kernels
