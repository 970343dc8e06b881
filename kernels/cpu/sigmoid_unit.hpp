// Activations of the form x s with s = sigmoid(g(x)), whose derivative is s + x s (1 - s) g'(x).
#pragma once

#include "cpu/vector.hpp"

namespace weft::kernels {

// g(x) = x.
struct Silu {
  static WEFT_INLINE void minus_g(const Floats& x, Floats& result) { result = -x; }
  static WEFT_INLINE void derivative(const Floats&, Floats& result) { result = Floats{} + 1.0f; }
};

// 0.5 x (1 + tanh(u)) = x sigmoid(2 u), without the cancellation of 1 + tanh; u = sqrt(2 / pi) (x + 0.044715
// x^3).
struct GeluTanh {
  static constexpr float kMinusTwoRoot = -1.5957691216057308f;  // -2 sqrt(2 / pi)
  static constexpr float kCubic = 0.044715f;
  static WEFT_INLINE void minus_g(const Floats& x, Floats& result) {
    result = kMinusTwoRoot * (x + kCubic * x * (x * x));
  }
  static WEFT_INLINE void derivative(const Floats& x, Floats& result) {
    result = -kMinusTwoRoot * (1.0f + 3 * kCubic * (x * x));
  }
};

template <class Unit>
WEFT_INLINE void sigmoid(const Floats& x, Floats& s) {
  Unit::minus_g(x, s);
  exponential(s);
  s = 1.0f / (1.0f + s);
}

template <class Unit>
WEFT_INLINE void slope(const Floats& x, const Floats& s, Floats& result) {
  Unit::derivative(x, result);
  result = s + x * s * (1.0f - s) * result;
}

}  // namespace weft::kernels
