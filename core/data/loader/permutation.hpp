// Elements of a permutation, each computed by itself.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "loader/random.hpp"

namespace weft::data {

// Returns element `index` of a permutation of 0 ... size - 1, which `key` decides. A Feistel network permutes
// the numbers of 2 * half bits; a number that is too large is permuted again (Black and Rogaway 2002, Ciphers
// with arbitrary finite domains), so fewer than 4 rounds are needed on average.
inline int64_t permuted(int64_t index, int64_t size, uint64_t key) {
  const int half = std::max(1, (static_cast<int>(std::bit_width(static_cast<uint64_t>(size - 1))) + 1) / 2);
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t next = left ^ (mixed(key + mixed(right * 8 + round)) & mask);
      left = right;
      right = next;
    }
    value = left << half | right;
  } while (value >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(value);
}

}  // namespace weft::data
