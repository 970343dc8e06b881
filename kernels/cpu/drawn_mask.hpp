// Masks of dropout, one byte a value: 1 where it is kept, otherwise 0. They come from the generators of
// formula/dropout.hpp.
#pragma once

#include <algorithm>

#include "cpu/dispatch.hpp"
#include "cpu/lanes.hpp"
#include "formula/dropout.hpp"

namespace weft::kernels {

using Words = uint32_t __attribute__((vector_size(64)));
using Bytes = uint8_t __attribute__((vector_size(16)));

// The generators of a block, one for each lane.
struct DropoutLanes {
  DropoutLanes(uint64_t seed, int64_t block) {
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

// The first `count` values of the block. draw() of formula/dropout.hpp for all lanes at once, which compilers
// do not make of a loop over them. `below`: of 2^32.
template <InstructionSet>
WEFT_INLINE void draw_mask(const DropoutLanes& lanes, int64_t count, uint32_t below, uint8_t* values) {
  Words a = lanes.words[0], b = lanes.words[1], c = lanes.words[2], d = lanes.words[3];
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

template <typename T>
WEFT_INLINE void load_mask(Lanes<T>& x, const uint8_t* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  x = __builtin_convertvector(__builtin_convertvector(bytes, Integers), Lanes<T>);
}

}  // namespace weft::kernels
