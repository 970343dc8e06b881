#include "cpu/gated.hpp"

#include "cpu/dispatch.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 14;

WEFT_INLINE void sigmoid(const Floats& x, Floats& result) {
  result = -x;
  exponential(result);
  result = 1.0f / (1.0f + result);
}

WEFT_INLINE void product(const Floats& gate, const Floats& up, Floats& y) {
  Floats s;
  sigmoid(gate, s);
  y = gate * s * up;
}

WEFT_INLINE void slopes(const Floats& gate, const Floats& up, const Floats& dy, Floats& dgate, Floats& dup) {
  Floats s;
  sigmoid(gate, s);
  const Floats active = gate * s;
  dup = dy * active;
  dgate = dy * up * (s + active * (1.0f - s));
}

template <InstructionSet>
WEFT_INLINE void gated_forward_body(int64_t count, const float* gate, const float* up, float* y) {
  const int64_t whole = count / kLanes * kLanes;
  Floats a, b, result;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(a, gate + i);
    load(b, up + i);
    product(a, b, result);
    store(result, y + i);
  }
  if (whole == count) return;
  load_part(a, gate + whole, count - whole, 0);
  load_part(b, up + whole, count - whole, 0);
  product(a, b, result);
  store_part(result, y + whole, count - whole);
}
WEFT_DISPATCH(gated_forward, (int64_t count, const float* gate, const float* up, float* y),
              (count, gate, up, y))

template <InstructionSet>
WEFT_INLINE void gated_backward_body(int64_t count, const float* gate, const float* up, const float* dy,
                                     float* dgate, float* dup) {
  const int64_t whole = count / kLanes * kLanes;
  Floats a, b, from, to_gate, to_up;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(a, gate + i);
    load(b, up + i);
    load(from, dy + i);
    slopes(a, b, from, to_gate, to_up);
    store(to_gate, dgate + i);
    store(to_up, dup + i);
  }
  if (whole == count) return;
  load_part(a, gate + whole, count - whole, 0);
  load_part(b, up + whole, count - whole, 0);
  load_part(from, dy + whole, count - whole, 0);
  slopes(a, b, from, to_gate, to_up);
  store_part(to_gate, dgate + whole, count - whole);
  store_part(to_up, dup + whole, count - whole);
}
WEFT_DISPATCH(gated_backward,
              (int64_t count, const float* gate, const float* up, const float* dy, float* dgate, float* dup),
              (count, gate, up, dy, dgate, dup))

}  // namespace

void silu_gated_forward(int64_t count, const float* gate, const float* up, float* y) {
  parallel_for(0, count, kValuesOfATask, [&](int64_t first, int64_t last) {
    gated_forward(last - first, gate + first, up + first, y + first);
  });
}

void silu_gated_backward(int64_t count, const float* gate, const float* up, const float* dy, float* dgate,
                         float* dup) {
  parallel_for(0, count, kValuesOfATask, [&](int64_t first, int64_t last) {
    gated_backward(last - first, gate + first, up + first, dy + first, dgate + first, dup + first);
  });
}

}  // namespace weft::kernels
