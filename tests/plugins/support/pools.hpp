// What a strategy has in each pool of memory.
#pragma once

#include <vector>

#include "memory/pools.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

// The accelerator has so many bytes in this scope.
class AcceleratorLimit {
 public:
  explicit AcceleratorLimit(int64_t bytes) { memory::limit_accelerator(bytes); }
  AcceleratorLimit(const AcceleratorLimit&) = delete;
  ~AcceleratorLimit() { memory::limit_accelerator(0); }
};

// Bytes of this rank by pool.
struct PlacedBytes {
  double elements = 0;  // of the parameters of this rank: the model's, or its part by a tensor axis
  double accelerator = 0, host = 0;  // when AdamW has stepped and the gradients are still there
  double most = 0;                   // on the accelerator in the second step
  double brought = 0, taken = 0;     // by that step, from the host and to it
};

struct BytesOfAnElement {
  const char* precision;
  double value, master;
  // Of a gradient, a master weight, two moments, and the rounded value that is gathered, if it is another.
  double offloaded() const { return value + 3 * master + (value != master ? value : 0); }
};
inline constexpr BytesOfAnElement kPrecisions[] = {{"fp32", 4, 4}, {"bf16", 2, 4}};

// Within 2 %, which padding may take.
inline void expect_bytes(double actual, double expected, const std::string& what) {
  EXPECT_NEAR(actual, expected, 0.02 * expected) << what;
}

// Of an even toy (plugins/support/bytes.hpp) on a batch of as few samples as there are ranks. Collective.
PlacedBytes placed_bytes(const World& world, const JobOptions& options);
// Of `model` on the global `batch`. Collective.
PlacedBytes placed_bytes(const World& world, Model model, const Batch& batch, const JobOptions& options);

// Gradients of a first backward, losses of 20 steps of AdamW and the values after them, bit for bit.
void expect_same_bits(const JobOptions& actual, const JobOptions& expected, const std::vector<int>& ranks);
// On the ranks of `world`. Collective.
void expect_same_bits(const World& world, const JobOptions& actual, const JobOptions& expected,
                      int64_t steps = 20);

// With `fits` the even toy trains on an accelerator of `limit` bytes, to the bits of an unlimited one and
// within the limit; with `exceeds` it is an error. Collective.
void expect_only_fits(const World& world, const JobOptions& fits, const JobOptions& exceeds, int64_t limit);

}  // namespace weft::test
