#include "cpu/gelu.hpp"

#include "cpu/dispatch.hpp"
#include "cpu/sigmoid_unit.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 14;

struct Tanh {
  static WEFT_INLINE void value(const Floats& x, Floats& y) {
    sigmoid<GeluTanh>(x, y);
    y *= x;
  }
  static WEFT_INLINE void derivative(const Floats& x, Floats& result) {
    Floats s;
    sigmoid<GeluTanh>(x, s);
    slope<GeluTanh>(x, s, result);
  }
};

struct Erf {
  // Φ(-|x|) = p(t) exp(-x² / 2) / 2, t = 1 / (1 + 0.3275911 |x| / sqrt(2)), with p of degree 5: erfc
  // to 1.5e-7 (Abramowitz and Stegun, 7.1.26). bell = exp(-x² / 2).
  static WEFT_INLINE void distribution(const Floats& x, Floats& result, Floats& bell) {
    const Floats t = 1.0f / (1.0f + 0.23164189f * (x < 0 ? -x : x));
    bell = -0.5f * (x * x);
    exponential(bell);
    Floats p = t * 0.5307027145f - 0.7265760135f;
    p = p * t + 0.7107068705f;
    p = p * t - 0.142248368f;
    p = p * t + 0.127414796f;
    const Floats tail = p * t * bell;
    result = x < 0 ? tail : 1.0f - tail;
  }
  static WEFT_INLINE void value(const Floats& x, Floats& y) {
    Floats bell;
    distribution(x, y, bell);
    y *= x;
  }
  static WEFT_INLINE void derivative(const Floats& x, Floats& result) {
    constexpr float kOneOverRoot = 0.3989422804f;  // 1 / sqrt(2 pi)
    Floats bell;
    distribution(x, result, bell);
    result += kOneOverRoot * x * bell;
  }
};

template <class Unit>
WEFT_INLINE void forward_values(int64_t count, const float* x, float* y) {
  const int64_t whole = count / kLanes * kLanes;
  Floats value, result;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(value, x + i);
    Unit::value(value, result);
    store(result, y + i);
  }
  if (whole == count) return;
  load_part(value, x + whole, count - whole, 0);
  Unit::value(value, result);
  store_part(result, y + whole, count - whole);
}

template <class Unit>
WEFT_INLINE void backward_values(int64_t count, const float* x, const float* dy, float* dx) {
  const int64_t whole = count / kLanes * kLanes;
  Floats value, up, result;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(value, x + i);
    load(up, dy + i);
    Unit::derivative(value, result);
    result *= up;
    store(result, dx + i);
  }
  if (whole == count) return;
  load_part(value, x + whole, count - whole, 0);
  load_part(up, dy + whole, count - whole, 0);
  Unit::derivative(value, result);
  result *= up;
  store_part(result, dx + whole, count - whole);
}

template <InstructionSet>
WEFT_INLINE void forward_part_body(Gelu kind, int64_t count, const float* x, float* y) {
  if (kind == Gelu::kErf)
    forward_values<Erf>(count, x, y);
  else
    forward_values<Tanh>(count, x, y);
}
WEFT_DISPATCH(forward_part, (Gelu kind, int64_t count, const float* x, float* y), (kind, count, x, y))

template <InstructionSet>
WEFT_INLINE void backward_part_body(Gelu kind, int64_t count, const float* x, const float* dy, float* dx) {
  if (kind == Gelu::kErf)
    backward_values<Erf>(count, x, dy, dx);
  else
    backward_values<Tanh>(count, x, dy, dx);
}
WEFT_DISPATCH(backward_part, (Gelu kind, int64_t count, const float* x, const float* dy, float* dx),
              (kind, count, x, dy, dx))

}  // namespace

void gelu_forward(Gelu kind, int64_t count, const float* x, float* y) {
  parallel_for(0, count, kValuesOfATask,
               [&](int64_t first, int64_t last) { forward_part(kind, last - first, x + first, y + first); });
}

void gelu_backward(Gelu kind, int64_t count, const float* x, const float* dy, float* dx) {
  parallel_for(0, count, kValuesOfATask, [&](int64_t first, int64_t last) {
    backward_part(kind, last - first, x + first, dy + first, dx + first);
  });
}

}  // namespace weft::kernels
