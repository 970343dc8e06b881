// The order of samples. A permutation must be the same on every machine and in every version, or a resumed
// run would draw other samples: std::shuffle is not specified bit for bit.
#include <numeric>
#include <random>

#include "loader/random.hpp"
#include "weft/data/dataset.hpp"

namespace weft::data {

namespace {

std::vector<int64_t> identity(int64_t size) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  return order;
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
