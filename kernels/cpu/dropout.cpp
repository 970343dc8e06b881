#include "cpu/dropout.hpp"

#include <algorithm>
#include <cmath>

#include "cpu/dispatch.hpp"
#include "cpu/lanes.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 14;
constexpr int64_t kValuesOfABlock = 1 << 12;

using Words = uint32_t __attribute__((vector_size(64)));
using Bytes = uint8_t __attribute__((vector_size(16)));

// SplitMix64 (Steele et al., Fast splittable pseudorandom number generators, 2014).
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// Of a block: each lane's own.
struct State {
  State(uint64_t seed, int64_t block) {
    uint64_t at = mixed(seed) + 0x9E3779B97F4A7C15ull * (2 * kLanes * static_cast<uint64_t>(block));
    for (int64_t lane = 0; lane < kLanes; ++lane)
      for (int64_t half = 0; half < 2; ++half) {
        const uint64_t drawn = mixed(at += 0x9E3779B97F4A7C15ull);
        words[2 * half][lane] = static_cast<uint32_t>(drawn);
        words[2 * half + 1][lane] = static_cast<uint32_t>(drawn >> 32);
      }
  }
  Words words[4];
};

// `below`: of 2^32.
template <InstructionSet>
WEFT_INLINE void draw_body(State& state, int64_t count, uint32_t below, uint8_t* values) {
  Words a = state.words[0], b = state.words[1], c = state.words[2], d = state.words[3];
  for (int64_t i = 0; i < count; i += kLanes) {
    const Words sum = a + d, drawn = ((sum << 7) | (sum >> 25)) + a, shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = (d << 11) | (d >> 21);
    const Bytes ones = __builtin_convertvector((Words)(drawn < below) & 1, Bytes);
    std::memcpy(values + i, &ones, static_cast<size_t>(std::min(kLanes, count - i)));
  }
}
WEFT_DISPATCH(draw, (State & state, int64_t count, uint32_t below, uint8_t* values),
              (state, count, below, values))

template <typename T>
WEFT_INLINE void load_mask(Lanes<T>& x, const uint8_t* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  x = __builtin_convertvector(__builtin_convertvector(bytes, Integers), Lanes<T>);
}

template <InstructionSet, typename T>
WEFT_INLINE void apply_body(int64_t count, const T* residual, const T* x, const uint8_t* mask, Exact<T> scale,
                            T* y) {
  const int64_t whole = count / kLanes * kLanes;
  Lanes<T> value, kept, added;
  for (int64_t i = 0; i < whole; i += kLanes) {
    load(value, x + i);
    load_mask<T>(kept, mask + i);
    value *= kept * scale;
    if (residual != nullptr) {
      load(added, residual + i);
      value += added;
    }
    store(value, y + i);
  }
  for (int64_t i = whole; i < count; ++i) {
    const Exact<T> one = static_cast<Exact<T>>(x[i]) * (static_cast<Exact<T>>(mask[i]) * scale);
    y[i] = static_cast<T>(residual ? static_cast<Exact<T>>(residual[i]) + one : one);
  }
}
#define WEFT_DROPOUT(T)                                                                                    \
  WEFT_DISPATCH(apply,                                                                                     \
                (int64_t count, const T* residual, const T* x, const uint8_t* mask, Exact<T> scale, T* y), \
                (count, residual, x, mask, scale, y))
WEFT_DROPOUT(float)
WEFT_DROPOUT(double)
WEFT_DROPOUT(c10::BFloat16)
WEFT_DROPOUT(c10::Half)

}  // namespace

void bernoulli(int64_t count, uint64_t seed, double probability, uint8_t* values) {
  const double below = std::clamp(std::ldexp(probability, 32), 0.0, 4294967295.0);
  const int64_t blocks = (count + kValuesOfABlock - 1) / kValuesOfABlock;
  parallel_for(0, blocks, kValuesOfATask / kValuesOfABlock, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      State state(seed, block);
      const int64_t begin = block * kValuesOfABlock;
      draw(state, std::min(kValuesOfABlock, count - begin), static_cast<uint32_t>(below), values + begin);
    }
  });
}

template <typename T>
void dropout(int64_t count, const T* residual, const T* x, const uint8_t* mask, Exact<T> scale, T* y) {
  parallel_for(0, count, kValuesOfATask, [&](int64_t first, int64_t last) {
    apply(last - first, residual ? residual + first : nullptr, x + first, mask + first, scale, y + first);
  });
}
template void dropout(int64_t, const float*, const float*, const uint8_t*, float, float*);
template void dropout(int64_t, const double*, const double*, const uint8_t*, double, double*);
template void dropout(int64_t, const c10::BFloat16*, const c10::BFloat16*, const uint8_t*, float,
                      c10::BFloat16*);
template void dropout(int64_t, const c10::Half*, const c10::Half*, const uint8_t*, float, c10::Half*);

}  // namespace weft::kernels
