// Random numbers that are the same on every machine and in every version. The C++ standard specifies engines
// bit for bit, but not its distributions.
#pragma once

#include <cstdint>
#include <limits>

namespace weft::data {

// Mixes all bits with SplitMix64 (Steele, Lea, Flood 2014), so that the results of neighbouring values differ
// in all bits.
inline uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// Returns a uniform integer less than `bound`. Rejects draws above the last multiple of `bound`, which would
// make small values more likely.
template <class Generator>
uint64_t draw_below(uint64_t bound, Generator& generator) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  const uint64_t excess = (kMost % bound + 1) % bound;  // 2^64 mod bound
  uint64_t drawn = generator();
  while (drawn > kMost - excess) drawn = generator();
  return drawn % bound;
}

// The random numbers of one sample in one epoch: the sequence of SplitMix64.
class SampleRandom {
 public:
  SampleRandom(int64_t seed, int64_t epoch, int64_t sample)
      : state_(mixed(mixed(mixed(static_cast<uint64_t>(seed)) + static_cast<uint64_t>(epoch)) +
                     static_cast<uint64_t>(sample))) {}

  uint64_t operator()() {
    const uint64_t drawn = mixed(state_);
    state_ += 0x9e3779b97f4a7c15u;
    return drawn;
  }
  // Returns a number in [0, 1) of 53 bits.
  double unit() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// Returns whether the document with this index in its source is held out, as a share of all are.
inline bool is_held_out(int64_t index, double share, int64_t seed) {
  return SampleRandom(seed, 0, index).unit() < share;
}

}  // namespace weft::data
