#include "cpu/gelu.hpp"

#include "cpu/dispatch.hpp"
#include "cpu/sigmoid_unit.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 14;

template <InstructionSet>
WEFT_INLINE void gelu_forward_body(int64_t count, const float* x, float* y) {
  const int64_t whole = count / kLanes * kLanes;
  Floats value, s;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(value, x + i);
    sigmoid<GeluTanh>(value, s);
    s *= value;
    store(s, y + i);
  }
  if (whole == count) return;
  load_part(value, x + whole, count - whole, 0);
  sigmoid<GeluTanh>(value, s);
  s *= value;
  store_part(s, y + whole, count - whole);
}
WEFT_DISPATCH(gelu_forward, (int64_t count, const float* x, float* y), (count, x, y))

template <InstructionSet>
WEFT_INLINE void gelu_backward_body(int64_t count, const float* x, const float* dy, float* dx) {
  const int64_t whole = count / kLanes * kLanes;
  Floats value, up, s, result;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(value, x + i);
    load(up, dy + i);
    sigmoid<GeluTanh>(value, s);
    slope<GeluTanh>(value, s, result);
    result *= up;
    store(result, dx + i);
  }
  if (whole == count) return;
  load_part(value, x + whole, count - whole, 0);
  load_part(up, dy + whole, count - whole, 0);
  sigmoid<GeluTanh>(value, s);
  slope<GeluTanh>(value, s, result);
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
