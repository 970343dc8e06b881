// Vectors of 16 floats for kernels that are compiled once for each instruction set (see dispatch.hpp). With
// the compiler's vector extension one source serves all: 16 lanes are one AVX-512 register, two of AVX2, four
// of SSE.
#pragma once

#include <cstdint>
#include <cstring>

namespace weft::kernels {

#define WEFT_INLINE inline __attribute__((always_inline))

constexpr int64_t kLanes = 16;
using Floats = float __attribute__((vector_size(64)));
using Integers = int32_t __attribute__((vector_size(64)));

// References in, references out: a vector that passes by value has another ABI in each instruction set.
WEFT_INLINE void load(Floats& x, const float* from) {
  std::memcpy(&x, from, sizeof(x));
}
WEFT_INLINE void store(const Floats& x, float* to) {
  std::memcpy(to, &x, sizeof(x));
}
// The first `count` lanes; the others are `rest`.
WEFT_INLINE void load_part(Floats& x, const float* from, int64_t count, float rest) {
  for (int64_t i = 0; i < kLanes; ++i) x[i] = i < count ? from[i] : rest;
}
WEFT_INLINE void store_part(const Floats& x, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = x[i];
}
WEFT_INLINE void maximum(Floats& x, const Floats& y) {
  x = x > y ? x : y;
}
WEFT_INLINE float largest(const Floats& x) {
  float result = x[0];
  for (int64_t i = 1; i < kLanes; ++i) result = x[i] > result ? x[i] : result;
  return result;
}
WEFT_INLINE float total(const Floats& x) {
  float result = 0;
  for (int64_t i = 0; i < kLanes; ++i) result += x[i];
  return result;
}

// Turns 16 vectors, the rows of a matrix, into its columns: four times the rows i and i + 8 are interleaved,
// lane by lane.
WEFT_INLINE void transpose_lanes(Floats (&rows)[kLanes]) {
#pragma unroll
  for (int round = 0; round < 4; ++round) {
    Floats next[kLanes];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const Floats a = rows[i], b = rows[i + 8];
      next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] =
          __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma unroll
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
}

// exp to about 1e-7 relative; 0 below -87.3, infinity above 88.7. exp(x) = 2^n exp(r), |r| <= ln(2) / 2, with
// ln(2) in two parts and a polynomial for exp(r) (S. Moshier, Cephes, expf).
WEFT_INLINE void exponential(Floats& x) {
  const Floats input = x;
  const Floats zero = {};
  const Floats high = zero + 88.72283f, low = zero - 87.33654f;
  x = x > high ? high : x;
  x = x < low ? low : x;
  const Floats magic = zero + 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const Floats shifted = x * 1.44269504f + magic;
  const Floats n = shifted - magic;
  const Floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats p = zero + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  // 2^n in two halves: n is -126 to 128, and 2^128 is no float.
  const Integers power = (Integers)shifted - (Integers)magic;
  const Integers half = power >> 1;
  const Floats first = (Floats)((half + 127) << 23), second = (Floats)((power - half + 127) << 23);
  x = p * first * second;
  x = input < low ? zero : x;
  x = input > high ? zero + __builtin_inff() : x;
}

}  // namespace weft::kernels
