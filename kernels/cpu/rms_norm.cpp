#include "cpu/rms_norm.hpp"

#include <algorithm>
#include <cmath>

#include "cpu/dispatch.hpp"
#include "cpu/lanes.hpp"
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

template <InstructionSet, typename T>
WEFT_INLINE void forward_rows_body(int64_t rows, int64_t channels, Exact<T> epsilon, const T* x,
                                   const T* weight, T* y, Exact<T>* scale) {
  for (int64_t row = 0; row < rows; ++row, x += channels, y += channels) {
    Lanes<T> squares = {}, value, w;
    for (int64_t c = 0; c < channels; c += kLanes) {
      load_up_to(value, x + c, channels - c);
      squares += value * value;
    }
    const Exact<T> factor = 1 / std::sqrt(total(squares) / static_cast<Exact<T>>(channels) + epsilon);
    scale[row] = factor;
    for (int64_t c = 0; c < channels; c += kLanes) {
      load_up_to(value, x + c, channels - c);
      load_up_to(w, weight + c, channels - c);
      value *= factor;
      round_to<T>(value);
      value *= w;
      store_up_to(value, y + c, channels - c);
    }
  }
}

template <InstructionSet, typename T>
WEFT_INLINE void backward_rows_body(int64_t rows, int64_t channels, const T* x, const T* weight,
                                    const Exact<T>* scale, const T* dy, const T* residual, T* dx) {
  for (int64_t row = 0; row < rows; ++row, x += channels, dy += channels, dx += channels) {
    Lanes<T> products = {}, value, w, up;
    for (int64_t c = 0; c < channels; c += kLanes) {
      load_up_to(value, x + c, channels - c);
      load_up_to(w, weight + c, channels - c);
      load_up_to(up, dy + c, channels - c);
      products += value * w * up;
    }
    const Exact<T> factor = scale[row];
    const Exact<T> common = total(products) / static_cast<Exact<T>>(channels) * factor * factor;
    for (int64_t c = 0; c < channels; c += kLanes) {
      load_up_to(value, x + c, channels - c);
      load_up_to(w, weight + c, channels - c);
      load_up_to(up, dy + c, channels - c);
      value = factor * (up * w - value * common);
      if (residual != nullptr) {
        load_up_to(up, residual + c, channels - c);
        value += up;
      }
      store_up_to(value, dx + c, channels - c);
    }
    if (residual != nullptr) residual += channels;
  }
}

// Adds `rows` rows of `count` columns, at most kColumns, to `sums`.
template <InstructionSet, typename T>
WEFT_INLINE void add_columns_body(int64_t rows, int64_t channels, int64_t count, const T* x,
                                  const Exact<T>* scale, const T* dy, Exact<T>* sums) {
  constexpr int64_t kVectors = kColumns / kLanes;
  Lanes<T> block[kVectors] = {}, value, up;
  if (count == kColumns) {
    for (int64_t row = 0; row < rows; ++row) {
      const Exact<T> factor = scale[row];
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

// For one type of numbers in memory.
#define WEFT_RMS_NORM(T)                                                                              \
  WEFT_DISPATCH(forward_rows,                                                                         \
                (int64_t rows, int64_t channels, Exact<T> epsilon, const T* x, const T* weight, T* y, \
                 Exact<T>* scale),                                                                    \
                (rows, channels, epsilon, x, weight, y, scale))                                       \
  WEFT_DISPATCH(backward_rows,                                                                        \
                (int64_t rows, int64_t channels, const T* x, const T* weight, const Exact<T>* scale,  \
                 const T* dy, const T* residual, T* dx),                                              \
                (rows, channels, x, weight, scale, dy, residual, dx))                                 \
  WEFT_DISPATCH(add_columns,                                                                          \
                (int64_t rows, int64_t channels, int64_t count, const T* x, const Exact<T>* scale,    \
                 const T* dy, Exact<T>* sums),                                                        \
                (rows, channels, count, x, scale, dy, sums))
WEFT_RMS_NORM(float)
WEFT_RMS_NORM(double)
WEFT_RMS_NORM(c10::BFloat16)
WEFT_RMS_NORM(c10::Half)

}  // namespace

template <typename T>
void rms_norm_forward(int64_t rows, int64_t channels, Exact<T> epsilon, const T* x, const T* weight, T* y,
                      Exact<T>* scale) {
  parallel_for(0, rows, rows_of_a_task(channels), [&](int64_t first, int64_t last) {
    forward_rows(last - first, channels, epsilon, x + first * channels, weight, y + first * channels,
                 scale + first);
  });
}

template <typename T>
void rms_norm_backward(int64_t rows, int64_t channels, const T* x, const T* weight, const Exact<T>* scale,
                       const T* dy, const T* residual, T* dx) {
  parallel_for(0, rows, rows_of_a_task(channels), [&](int64_t first, int64_t last) {
    backward_rows(last - first, channels, x + first * channels, weight, scale + first, dy + first * channels,
                  residual != nullptr ? residual + first * channels : nullptr, dx + first * channels);
  });
}

template <typename T>
void rms_norm_weight_gradient(int64_t rows, int64_t channels, const T* x, const Exact<T>* scale, const T* dy,
                              Exact<T>* dweight) {
  std::fill_n(dweight, channels, Exact<T>{0});
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

#define WEFT_INSTANTIATE(T)                                                                                  \
  template void rms_norm_forward(int64_t, int64_t, Exact<T>, const T*, const T*, T*, Exact<T>*);             \
  template void rms_norm_backward(int64_t, int64_t, const T*, const T*, const Exact<T>*, const T*, const T*, \
                                  T*);                                                                       \
  template void rms_norm_weight_gradient(int64_t, int64_t, const T*, const Exact<T>*, const T*, Exact<T>*);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(double)
WEFT_INSTANTIATE(c10::BFloat16)
WEFT_INSTANTIATE(c10::Half)

}  // namespace weft::kernels
