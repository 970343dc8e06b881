// GELU: x Φ(x), Φ the normal distribution, and its approximation with tanh: 0.5 x (1 + tanh(u)) = x sigmoid(2
// u), u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks and Gimpel, arXiv:1606.08415). One exponential and one
// division a value, without the cancellation of 1 + erf and 1 + tanh.
#pragma once

#include <cstdint>

namespace weft::kernels {

enum class Gelu { kErf, kTanh };

// y may be x.
void gelu_forward(Gelu kind, int64_t count, const float* x, float* y);
// dx = dy times the derivative at x. dx may be dy.
void gelu_backward(Gelu kind, int64_t count, const float* x, const float* dy, float* dx);

}  // namespace weft::kernels
