// GELU: x Φ(x), Φ the normal distribution, and its approximation with tanh: 0.5 x (1 + tanh(u)) = x sigmoid(2
// u), u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks and Gimpel, arXiv:1606.08415). The formulas of one
// element are CUDA's; the CPU has them in vectors (cpu/gelu.cpp).
#pragma once

#include <cmath>

#include "formula/formula.hpp"
#include "formula/gated.hpp"

namespace weft::kernels {

enum class Gelu { kErf, kTanh };

// The gradient of x.
template <Gelu kKind>
WEFT_FORMULA float gelu_gradient(float x, float dy) {
  constexpr float kInverseRoot = 0.7071067811865476f;  // 1 / sqrt(2)
  constexpr float kDensity = 0.3989422804014327f;      // 1 / sqrt(2 pi)
  if (kKind == Gelu::kTanh) return gated_slopes<Gate::kGeluTanh>(x, 1.0f, dy).gate;
  return dy * fmaf(x, kDensity * expf(-0.5f * x * x), fmaf(0.5f, erff(kInverseRoot * x), 0.5f));
}

}  // namespace weft::kernels
