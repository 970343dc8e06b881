// The activations of a gated unit have the form x s with s = sigmoid(g(x)), whose derivative is s + x s
// (1 - s) g'(x). The formulas of one element are CUDA's; the CPU has them in vectors (cpu/sigmoid_unit.hpp).
#pragma once

#include <cmath>

#include "formula/formula.hpp"

namespace weft::kernels {

// SiLU: g(x) = x. GELU by its approximation with tanh: 0.5 x (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi)
// (x + 0.044715 x^3).
enum class Gate { kSilu, kGeluTanh };

constexpr float kGeluTwoRoot = 1.5957691216057308f;  // 2 sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;

// s, which is 0 or 1 where the exponential overflows or vanishes.
template <Gate kKind>
WEFT_FORMULA float gate_sigmoid(float x) {
  const float g = kKind == Gate::kSilu ? x : x * fmaf(kGeluTwoRoot * kGeluCubic, x * x, kGeluTwoRoot);
  const float sum = 1.0f + expf(-g);
#ifdef __CUDA_ARCH__
  return __fdividef(1.0f, sum);  // to two units in the last place, in a third of the instructions
#else
  return 1.0f / sum;
#endif
}

template <Gate kKind>
WEFT_FORMULA float gated_product(float gate, float up) {
  return gate * gate_sigmoid<kKind>(gate) * up;
}

struct GatedSlopes {
  float gate, up;
};

template <Gate kKind>
WEFT_FORMULA GatedSlopes gated_slopes(float gate, float up, float dy) {
  const float s = gate_sigmoid<kKind>(gate), activation = gate * s;
  const float slope =
      kKind == Gate::kSilu ? 1.0f : fmaf(3 * kGeluTwoRoot * kGeluCubic, gate * gate, kGeluTwoRoot);
  return {dy * up * fmaf(fmaf(-activation, s, activation), slope, s), dy * activation};
}

}  // namespace weft::kernels
