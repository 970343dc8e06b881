// The random numbers of hidden dropout. Values come in blocks of 4096, and value i of a block from lane i %
// 16 of it: xoshiro128++ (Blackman, Vigna, Scrambled linear pseudorandom number generators, 2021), seeded
// by SplitMix64 (Steele et al., Fast splittable pseudorandom number generators, 2014) at a counter of the
// block and the lane. Any block can hence be drawn alone.
#pragma once

#include <cmath>
#include <cstdint>

#include "formula/formula.hpp"

namespace weft::kernels {

constexpr int64_t kValuesOfADropoutBlock = 4096;
constexpr int kLanesOfADropoutBlock = 16;

WEFT_FORMULA uint64_t split_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

struct DropoutLane {
  uint32_t a, b, c, d;
};

WEFT_FORMULA DropoutLane dropout_lane(uint64_t seed, int64_t block, int lane) {
  constexpr uint64_t kStep = 0x9E3779B97F4A7C15ull;
  const uint64_t before =
      2 * (kLanesOfADropoutBlock * static_cast<uint64_t>(block) + static_cast<uint64_t>(lane));
  const uint64_t at = split_mix(seed) + kStep * before;
  const uint64_t low = split_mix(at + kStep), high = split_mix(at + 2 * kStep);
  return {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
          static_cast<uint32_t>(high >> 32)};
}

WEFT_FORMULA uint32_t draw(DropoutLane& lane) {
  const uint32_t sum = lane.a + lane.d, drawn = ((sum << 7) | (sum >> 25)) + lane.a, shifted = lane.b << 9;
  lane.c ^= lane.a;
  lane.d ^= lane.b;
  lane.b ^= lane.c;
  lane.a ^= lane.d;
  lane.c ^= shifted;
  lane.d = (lane.d << 11) | (lane.d >> 21);
  return drawn;
}

// A value is kept if its random number is below this.
inline uint32_t dropout_threshold(double probability) {
  const double below = std::ldexp(probability, 32);
  return below >= 4294967295.0 ? 4294967295u : below > 0 ? static_cast<uint32_t>(below) : 0u;
}

}  // namespace weft::kernels
