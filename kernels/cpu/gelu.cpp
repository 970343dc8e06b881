#include "cpu/gelu.hpp"

#include "cpu/dispatch.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 14;
constexpr float kMinusTwoRoot = -1.5957691216057308f;  // -2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

// sigmoid(2 u)
WEFT_INLINE void gate(const Floats& x, Floats& s) {
  s = kMinusTwoRoot * (x + kCubic * x * (x * x));
  exponential(s);
  s = 1.0f / (1.0f + s);
}

WEFT_INLINE void slope(const Floats& x, Floats& result) {
  Floats s;
  gate(x, s);
  const Floats inner = -kMinusTwoRoot * (1.0f + 3 * kCubic * (x * x));  // 2 du / dx
  result = s + x * s * (1.0f - s) * inner;
}

template <InstructionSet>
WEFT_INLINE void gelu_forward_body(int64_t count, const float* x, float* y) {
  const int64_t whole = count / kLanes * kLanes;
  Floats value, s;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(value, x + i);
    gate(value, s);
    s *= value;
    store(s, y + i);
  }
  if (whole == count) return;
  load_part(value, x + whole, count - whole, 0);
  gate(value, s);
  s *= value;
  store_part(s, y + whole, count - whole);
}
WEFT_DISPATCH(gelu_forward, (int64_t count, const float* x, float* y), (count, x, y))

template <InstructionSet>
WEFT_INLINE void gelu_backward_body(int64_t count, const float* x, const float* dy, float* dx) {
  const int64_t whole = count / kLanes * kLanes;
  Floats value, up, result;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(value, x + i);
    load(up, dy + i);
    slope(value, result);
    result *= up;
    store(result, dx + i);
  }
  if (whole == count) return;
  load_part(value, x + whole, count - whole, 0);
  load_part(up, dy + whole, count - whole, 0);
  slope(value, result);
  result *= up;
  store_part(result, dx + whole, count - whole);
}
WEFT_DISPATCH(gelu_backward, (int64_t count, const float* x, const float* dy, float* dx), (count, x, dy, dx))

}  // namespace

void gelu_tanh_forward(int64_t count, const float* x, float* y) {
  parallel_for(0, count, kValuesOfATask,
               [&](int64_t first, int64_t last) { gelu_forward(last - first, x + first, y + first); });
}

void gelu_tanh_backward(int64_t count, const float* x, const float* dy, float* dx) {
  parallel_for(0, count, kValuesOfATask, [&](int64_t first, int64_t last) {
    gelu_backward(last - first, x + first, dy + first, dx + first);
  });
}

}  // namespace weft::kernels
