// Rows of scores of attention, one for each query.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/vector.hpp"

namespace weft::kernels {

// x = exp(scale x - shift), and 0 in the lanes before `from` and from `to` on.
WEFT_INLINE void exponentials_of(Floats& x, int64_t from, int64_t to, float scale, float shift) {
  x = x * scale - shift;
  exponential(x);
  for (int64_t i = 0; i < from && i < kLanes; ++i) x[i] = 0;
  for (int64_t i = to; i < kLanes; ++i) x[i] = 0;
}

// row = exp(scale row - shift) of the keys `from` to `to` - 1 of `width`, 0 elsewhere; returns the sum.
WEFT_INLINE float exponentials(float* row, int64_t from, int64_t to, int64_t width, float scale,
                               float shift) {
  Floats sum = {}, x;
  int64_t j = from / kLanes * kLanes;
  std::fill_n(row, j, 0.0f);
  for (; j + kLanes <= to; j += kLanes) {
    load(x, row + j);
    exponentials_of(x, from - j, kLanes, scale, shift);
    store(x, row + j);
    sum += x;
  }
  if (j < to) {
    load_part(x, row + j, to - j, 0);
    exponentials_of(x, from - j, to - j, scale, shift);
    store(x, row + j);
    sum += x;
    j += kLanes;
  }
  for (; j < width; ++j) row[j] = 0;
  return total(sum);
}

// row = scale row + bias of the first `keys`.
WEFT_INLINE void add_bias(float* row, const float* bias, int64_t keys, float scale) {
  Floats x, added;
  int64_t j = 0;
  for (; j + kLanes <= keys; j += kLanes) {
    load(x, row + j);
    load(added, bias + j);
    x = x * scale + added;
    store(x, row + j);
  }
  for (; j < keys; ++j) row[j] = row[j] * scale + bias[j];
}

WEFT_INLINE float maximum_of(const float* row, int64_t keys) {
  const Floats lowest = Floats{} - __builtin_inff();
  Floats most = lowest, x;
  int64_t j = 0;
  for (; j + kLanes <= keys; j += kLanes) {
    load(x, row + j);
    maximum(most, x);
  }
  load_part(x, row + j, keys - j, -__builtin_inff());
  maximum(most, x);
  return largest(most);
}

WEFT_INLINE float dot(const float* a, const float* b, int64_t size) {
  Floats sum = {}, x, y;
  for (int64_t d = 0; d < size; d += kLanes) {
    load(x, a + d);
    load(y, b + d);
    sum += x * y;
  }
  return total(sum);
}

}  // namespace weft::kernels
