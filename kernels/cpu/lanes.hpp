// Vectors of 16 values of fp32 (vector.hpp) or fp64, and memory in these or in half precision.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <type_traits>

#include "cpu/vector.hpp"

namespace weft::kernels {

using Doubles = double __attribute__((vector_size(128)));
template <typename T>
using Lanes = std::conditional_t<std::is_same_v<T, double>, Doubles, Floats>;

WEFT_INLINE void load(Doubles& x, const double* from) {
  std::memcpy(&x, from, sizeof(x));
}
WEFT_INLINE void store(const Doubles& x, double* to) {
  std::memcpy(to, &x, sizeof(x));
}

// The upper half of an fp32.
WEFT_INLINE void load(Floats& x, const c10::BFloat16* from) {
  using Shorts = uint16_t __attribute__((vector_size(32)));
  Shorts bits;
  std::memcpy(&bits, from, sizeof(bits));
  x = (Floats)(__builtin_convertvector(bits, Integers) << 16);
}
WEFT_INLINE void load(Floats& x, const c10::Half* from) {
  for (int64_t i = 0; i < kLanes; ++i) x[i] = static_cast<float>(from[i]);
}
template <typename T>
WEFT_INLINE void store(const Floats& x, T* to) {
  for (int64_t i = 0; i < kLanes; ++i) to[i] = static_cast<T>(x[i]);
}

// Up to 16 values, the others 0.
template <typename T>
WEFT_INLINE void load_up_to(Lanes<T>& x, const T* from, int64_t count) {
  if (count >= kLanes) return load(x, from);
  for (int64_t i = 0; i < kLanes; ++i) x[i] = i < count ? static_cast<decltype(x[0] + 0)>(from[i]) : 0;
}
template <typename T>
WEFT_INLINE void store_up_to(const Lanes<T>& x, T* to, int64_t count) {
  if (count >= kLanes) return store(x, to);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(x[i]);
}

// To what memory of type T would hold.
template <typename T>
WEFT_INLINE void round_to(Lanes<T>& x) {
  if constexpr (!std::is_same_v<T, float> && !std::is_same_v<T, double>)
    for (int64_t i = 0; i < kLanes; ++i) x[i] = static_cast<float>(static_cast<T>(x[i]));
}

WEFT_INLINE double total(const Doubles& x) {
  double result = 0;
  for (int64_t i = 0; i < kLanes; ++i) result += x[i];
  return result;
}

}  // namespace weft::kernels
