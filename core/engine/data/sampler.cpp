// The order of samples. A permutation must be the same on every machine and in every version, or a resumed
// run would draw other samples. The C++ standard specifies mt19937_64 bit for bit, but not std::shuffle or
// its distributions.
#include <numeric>
#include <random>

#include "base/text.hpp"
#include "weft/data/dataset.hpp"

namespace weft::data {

namespace {

std::vector<int64_t> identity(int64_t size) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Mixes seed and epoch with SplitMix64 (Steele, Lea, Flood 2014), so that neighbouring values differ in all
// bits.
uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// Returns a uniform integer less than `bound`. Rejects draws above the last multiple of `bound`, which would
// make small values more likely.
uint64_t draw_below(uint64_t bound, std::mt19937_64& generator) {
  const uint64_t excess = (std::mt19937_64::max() % bound + 1) % bound;  // 2^64 mod bound
  uint64_t drawn = generator();
  while (drawn > std::mt19937_64::max() - excess) drawn = generator();
  return drawn % bound;
}

class Sequential final : public Sampler {
 public:
  std::vector<int64_t> order(int64_t size, int64_t) const override { return identity(size); }
};

class Shuffling final : public Sampler {
 public:
  explicit Shuffling(int64_t seed) : seed_(seed) {}

  // The Fisher-Yates shuffle.
  std::vector<int64_t> order(int64_t size, int64_t epoch) const override {
    std::mt19937_64 generator(mixed(mixed(static_cast<uint64_t>(seed_)) + static_cast<uint64_t>(epoch)));
    std::vector<int64_t> order = identity(size);
    for (size_t left = order.size(); left > 1; --left)
      std::swap(order[left - 1], order[draw_below(left, generator)]);
    return order;
  }

 private:
  int64_t seed_;
};

}  // namespace

std::shared_ptr<Sampler> sequential_sampler() {
  return std::make_shared<Sequential>();
}

std::shared_ptr<Sampler> shuffling_sampler(int64_t seed) {
  return std::make_shared<Shuffling>(seed);
}

}  // namespace weft::data
