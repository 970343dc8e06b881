#include "cpu/rotary.hpp"

#include <algorithm>

#include "cpu/dispatch.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 14;

// All heads of one position.
template <InstructionSet>
WEFT_INLINE void rotate_position_body(const RotaryShape& shape, const float* x, const float* cosine,
                                      const float* sine, float sign, float* y) {
  const int64_t half = shape.half(), whole = half / kLanes * kLanes;
  for (int64_t head = 0; head < shape.heads; ++head, x += shape.size, y += shape.size) {
    Floats a, b, c, s, result;
    for (int64_t i = 0; i < whole; i += kLanes) {
      load(a, x + i);
      load(b, x + half + i);
      load(c, cosine + i);
      load(s, sine + i);
      s *= sign;
      result = a * c - b * s;
      store(result, y + i);
      result = b * c + a * s;
      store(result, y + half + i);
    }
    for (int64_t i = whole; i < half; ++i) {
      const float first = x[i], second = x[half + i], turn = sign * sine[i];
      y[i] = first * cosine[i] - second * turn;
      y[half + i] = second * cosine[i] + first * turn;
    }
    if (y != x) std::copy_n(x + 2 * half, shape.still, y + 2 * half);
  }
}
WEFT_DISPATCH(rotate_position,
              (const RotaryShape& shape, const float* x, const float* cosine, const float* sine, float sign,
               float* y),
              (shape, x, cosine, sine, sign, y))

}  // namespace

void rotate(const RotaryShape& shape, const float* x, const float* cosine, const float* sine, bool back,
            float* y) {
  const int64_t half = shape.half(), values = shape.heads * shape.size;
  parallel_for(0, shape.batch * shape.positions,
               std::max<int64_t>(1, kValuesOfATask / std::max<int64_t>(values, 1)),
               [&](int64_t first, int64_t last) {
                 for (int64_t i = first; i < last; ++i) {
                   const int64_t row = (shape.table_for_all ? i % shape.positions : i) * half;
                   rotate_position(shape, x + i * values, cosine + row, sine + row, back ? -1.0f : 1.0f,
                                   y + i * values);
                 }
               });
}

}  // namespace weft::kernels
