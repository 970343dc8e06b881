#include "cpu/rms_norm.hpp"

#include <algorithm>
#include <cmath>

#include "cpu/dispatch.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 15;
// Of the gradient of the weight: the rows of a block stay in the second cache while all columns pass, and
// their sums are added as one, so that many rows round no more than few.
constexpr int64_t kRowsOfABlock = 64;
constexpr int64_t kColumns = 4 * kLanes;

int64_t rows_of_a_task(int64_t channels) {
  return std::max<int64_t>(1, kValuesOfATask / std::max<int64_t>(channels, 1));
}

// Up to 16 values, the others 0.
WEFT_INLINE void load_up_to(Floats& x, const float* from, int64_t count) {
  if (count >= kLanes) {
    load(x, from);
  } else {
    load_part(x, from, count, 0);
  }
}
WEFT_INLINE void store_up_to(const Floats& x, float* to, int64_t count) {
  if (count >= kLanes) {
    store(x, to);
  } else {
    store_part(x, to, count);
  }
}

template <InstructionSet>
WEFT_INLINE void forward_rows_body(int64_t rows, int64_t channels, float epsilon, const float* x,
                                   const float* weight, float* y, float* scale) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
    Floats squares = {}, value, w;
    for (int64_t c = 0; c < channels; c += kLanes) {
      load_up_to(value, x + c, channels - c);
      squares += value * value;
    }
    const float factor = 1 / std::sqrt(total(squares) / static_cast<float>(channels) + epsilon);
    scale[row] = factor;
    for (int64_t c = 0; c < channels; c += kLanes) {
      load_up_to(value, x + c, channels - c);
      load_up_to(w, weight + c, channels - c);
      value = value * factor * w;
      store_up_to(value, y + c, channels - c);
    }
  }
}
WEFT_DISPATCH(forward_rows,
              (int64_t rows, int64_t channels, float epsilon, const float* x, const float* weight, float* y,
               float* scale),
              (rows, channels, epsilon, x, weight, y, scale))

template <InstructionSet>
WEFT_INLINE void backward_rows_body(int64_t rows, int64_t channels, const float* x, const float* weight,
                                    const float* scale, const float* dy, float* dx) {
  for (int64_t row = 0; row < rows; ++row, x += channels, dy += channels, dx += channels) {
    Floats products = {}, value, w, up;
    for (int64_t c = 0; c < channels; c += kLanes) {
      load_up_to(value, x + c, channels - c);
      load_up_to(w, weight + c, channels - c);
      load_up_to(up, dy + c, channels - c);
      products += value * w * up;
    }
    const float factor = scale[row];
    const float common = total(products) / static_cast<float>(channels) * factor * factor;
    for (int64_t c = 0; c < channels; c += kLanes) {
      load_up_to(value, x + c, channels - c);
      load_up_to(w, weight + c, channels - c);
      load_up_to(up, dy + c, channels - c);
      value = factor * (up * w - value * common);
      store_up_to(value, dx + c, channels - c);
    }
  }
}
WEFT_DISPATCH(backward_rows,
              (int64_t rows, int64_t channels, const float* x, const float* weight, const float* scale,
               const float* dy, float* dx),
              (rows, channels, x, weight, scale, dy, dx))

// Adds `rows` rows of `count` columns, at most kColumns, to `sums`.
template <InstructionSet>
WEFT_INLINE void add_columns_body(int64_t rows, int64_t channels, int64_t count, const float* x,
                                  const float* scale, const float* dy, float* sums) {
  constexpr int64_t kVectors = kColumns / kLanes;
  Floats block[kVectors] = {}, value, up;
  if (count == kColumns) {
    for (int64_t row = 0; row < rows; ++row) {
      const float factor = scale[row];
#pragma unroll
      for (int64_t v = 0; v < kVectors; ++v) {
        load(value, x + row * channels + v * kLanes);
        load(up, dy + row * channels + v * kLanes);
        block[v] += value * up * factor;
      }
    }
  } else {
    for (int64_t v = 0; v * kLanes < count; ++v) {
      for (int64_t row = 0; row < rows; ++row) {
        load_up_to(value, x + row * channels + v * kLanes, count - v * kLanes);
        load_up_to(up, dy + row * channels + v * kLanes, count - v * kLanes);
        block[v] += value * up * scale[row];
      }
    }
  }
  for (int64_t c = 0; c < count; ++c) sums[c] += block[c / kLanes][c % kLanes];
}
WEFT_DISPATCH(add_columns,
              (int64_t rows, int64_t channels, int64_t count, const float* x, const float* scale,
               const float* dy, float* sums),
              (rows, channels, count, x, scale, dy, sums))

}  // namespace

void rms_norm_forward(int64_t rows, int64_t channels, float epsilon, const float* x, const float* weight,
                      float* y, float* scale) {
  parallel_for(0, rows, rows_of_a_task(channels), [&](int64_t first, int64_t last) {
    forward_rows(last - first, channels, epsilon, x + first * channels, weight, y + first * channels,
                 scale + first);
  });
}

void rms_norm_backward(int64_t rows, int64_t channels, const float* x, const float* weight,
                       const float* scale, const float* dy, float* dx) {
  parallel_for(0, rows, rows_of_a_task(channels), [&](int64_t first, int64_t last) {
    backward_rows(last - first, channels, x + first * channels, weight, scale + first, dy + first * channels,
                  dx + first * channels);
  });
}

void rms_norm_weight_gradient(int64_t rows, int64_t channels, const float* x, const float* scale,
                              const float* dy, float* dweight) {
  std::fill_n(dweight, channels, 0.0f);
  const int64_t parts = (channels + kColumns - 1) / kColumns;
  parallel_for(0, parts, std::max<int64_t>(1, kValuesOfATask / (std::max<int64_t>(rows, 1) * kColumns)),
               [&](int64_t first, int64_t last) {
                 for (int64_t row = 0; row < rows; row += kRowsOfABlock) {
                   for (int64_t part = first; part < last; ++part) {
                     const int64_t column = part * kColumns, at = row * channels + column;
                     add_columns(std::min(kRowsOfABlock, rows - row), channels,
                                 std::min(kColumns, channels - column), x + at, scale + row, dy + at,
                                 dweight + column);
                   }
                 }
               });
}

}  // namespace weft::kernels
