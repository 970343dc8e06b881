// Random numbers that differ between ranks although their micro-batches and default generators are the same.
#pragma once

#include <cstdint>
#include <optional>

#include "device/random.hpp"

namespace weft::nn {

// Returns the random stream of a rank. It differs from 0, the default generator.
constexpr uint64_t random_stream_of(int rank) {
  return static_cast<uint64_t>(rank) + 1;
}

// While an object of this class lives, the default generators draw the numbers of random stream `stream`.
// If the micro-batch of the running unit has a seed, the stream is seeded by that unit's next random number.
// Otherwise it is seeded by the default generator, which then continues as if one number had been drawn, and
// stream 0 leaves the generator alone. Ranks therefore stay in step, and a recomputation draws the same
// numbers. While a graph is captured, stream 0 leaves the generator to GraphSeeds.
class RandomStream {
 public:
  explicit RandomStream(uint64_t stream);
  RandomStream(const RandomStream&) = delete;

 private:
  std::optional<device::KeepRandomState> before_;  // nothing if the generators were left alone
};

}  // namespace weft::nn
