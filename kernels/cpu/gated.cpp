#include "cpu/gated.hpp"

#include "cpu/dispatch.hpp"
#include "cpu/sigmoid_unit.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 14;

template <class Unit>
WEFT_INLINE void product(const Floats& gate, const Floats& up, Floats& y) {
  Floats s;
  sigmoid<Unit>(gate, s);
  y = gate * s * up;
}

template <class Unit>
WEFT_INLINE void slopes(const Floats& gate, const Floats& up, const Floats& dy, Floats& dgate, Floats& dup) {
  Floats s;
  sigmoid<Unit>(gate, s);
  dup = dy * gate * s;
  slope<Unit>(gate, s, dgate);
  dgate *= dy * up;
}

template <class Unit>
WEFT_INLINE void forward_of(int64_t count, const float* gate, const float* up, float* y) {
  const int64_t whole = count / kLanes * kLanes;
  Floats a, b, result;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(a, gate + i);
    load(b, up + i);
    product<Unit>(a, b, result);
    store(result, y + i);
  }
  if (whole == count) return;
  load_part(a, gate + whole, count - whole, 0);
  load_part(b, up + whole, count - whole, 0);
  product<Unit>(a, b, result);
  store_part(result, y + whole, count - whole);
}
template <InstructionSet>
WEFT_INLINE void forward_body(Gate kind, int64_t count, const float* gate, const float* up, float* y) {
  if (kind == Gate::kSilu) return forward_of<Silu>(count, gate, up, y);
  forward_of<GeluTanh>(count, gate, up, y);
}
WEFT_DISPATCH(forward, (Gate kind, int64_t count, const float* gate, const float* up, float* y),
              (kind, count, gate, up, y))

template <class Unit>
WEFT_INLINE void backward_of(int64_t count, const float* gate, const float* up, const float* dy, float* dgate,
                             float* dup) {
  const int64_t whole = count / kLanes * kLanes;
  Floats a, b, from, to_gate, to_up;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(a, gate + i);
    load(b, up + i);
    load(from, dy + i);
    slopes<Unit>(a, b, from, to_gate, to_up);
    store(to_gate, dgate + i);
    store(to_up, dup + i);
  }
  if (whole == count) return;
  load_part(a, gate + whole, count - whole, 0);
  load_part(b, up + whole, count - whole, 0);
  load_part(from, dy + whole, count - whole, 0);
  slopes<Unit>(a, b, from, to_gate, to_up);
  store_part(to_gate, dgate + whole, count - whole);
  store_part(to_up, dup + whole, count - whole);
}
template <InstructionSet>
WEFT_INLINE void backward_body(Gate kind, int64_t count, const float* gate, const float* up, const float* dy,
                               float* dgate, float* dup) {
  if (kind == Gate::kSilu) return backward_of<Silu>(count, gate, up, dy, dgate, dup);
  backward_of<GeluTanh>(count, gate, up, dy, dgate, dup);
}
WEFT_DISPATCH(backward,
              (Gate kind, int64_t count, const float* gate, const float* up, const float* dy, float* dgate,
               float* dup),
              (kind, count, gate, up, dy, dgate, dup))

}  // namespace

void gated_forward(Gate kind, int64_t count, const float* gate, const float* up, float* y) {
  parallel_for(0, count, kValuesOfATask, [&](int64_t first, int64_t last) {
    forward(kind, last - first, gate + first, up + first, y + first);
  });
}

void gated_backward(Gate kind, int64_t count, const float* gate, const float* up, const float* dy,
                    float* dgate, float* dup) {
  parallel_for(0, count, kValuesOfATask, [&](int64_t first, int64_t last) {
    backward(kind, last - first, gate + first, up + first, dy + first, dgate + first, dup + first);
  });
}

}  // namespace weft::kernels
