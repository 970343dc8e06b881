#include "cpu/dropout.hpp"

#include <algorithm>

#include "cpu/dispatch.hpp"
#include "cpu/lanes.hpp"
#include "formula/dropout.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 14;

using Words = uint32_t __attribute__((vector_size(64)));
using Bytes = uint8_t __attribute__((vector_size(16)));

// Of a block: each lane's own.
struct State {
  State(uint64_t seed, int64_t block) {
    static_assert(kLanes == kLanesOfADropoutBlock);
    for (int lane = 0; lane < kLanesOfADropoutBlock; ++lane) {
      const DropoutLane drawn = dropout_lane(seed, block, lane);
      words[0][lane] = drawn.a;
      words[1][lane] = drawn.b;
      words[2][lane] = drawn.c;
      words[3][lane] = drawn.d;
    }
  }
  Words words[4];
};

// draw() of formula/dropout.hpp for all lanes at once, which compilers do not make of a loop over them.
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
  const uint32_t below = dropout_threshold(probability);
  const int64_t blocks = (count + kValuesOfADropoutBlock - 1) / kValuesOfADropoutBlock;
  parallel_for(0, blocks, kValuesOfATask / kValuesOfADropoutBlock, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      State state(seed, block);
      const int64_t begin = block * kValuesOfADropoutBlock;
      draw(state, std::min(kValuesOfADropoutBlock, count - begin), below, values + begin);
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
