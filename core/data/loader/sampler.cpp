// The order of samples. A permutation must be the same on every machine and in every version, or a resumed
// run would draw other samples: std::shuffle is not specified bit for bit.
#include <algorithm>
#include <numeric>
#include <random>

#include "base/text.hpp"
#include "loader/random.hpp"
#include "weft/data/dataset.hpp"

namespace weft::data {

namespace {

std::vector<int64_t> identity(int64_t size) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::mt19937_64 generator_of(int64_t seed, int64_t epoch) {
  return std::mt19937_64(mixed(mixed(static_cast<uint64_t>(seed)) + static_cast<uint64_t>(epoch)));
}

// Returns 0 ... size - 1 in a random order: the Fisher-Yates shuffle.
std::vector<int64_t> shuffled(int64_t size, std::mt19937_64& generator) {
  std::vector<int64_t> order = identity(size);
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[draw_below(left, generator)]);
  return order;
}

class Sequential final : public Sampler {
 public:
  std::vector<int64_t> order(int64_t size, int64_t) const override { return identity(size); }
};

class Shuffling final : public Sampler {
 public:
  explicit Shuffling(int64_t seed) : seed_(seed) {}

  std::vector<int64_t> order(int64_t size, int64_t epoch) const override {
    std::mt19937_64 generator = generator_of(seed_, epoch);
    return shuffled(size, generator);
  }

 private:
  const int64_t seed_;
};

class Bucketing final : public Sampler {
 public:
  Bucketing(int64_t seed, std::vector<int64_t> lengths, int64_t batch_size)
      : seed_(seed), lengths_(std::move(lengths)), batch_size_(batch_size) {}

  std::vector<int64_t> order(int64_t size, int64_t epoch) const override {
    constexpr int64_t kSortedBatches = 50;
    if (size != static_cast<int64_t>(lengths_.size()))
      fail(WEFT_INVALID_ARGUMENT, "data loader: there are {} samples, but the lengths of {}", size,
           lengths_.size());
    std::mt19937_64 generator = generator_of(seed_, epoch);
    std::vector<int64_t> samples = shuffled(size, generator);
    for (int64_t begin = 0; begin < size; begin += kSortedBatches * batch_size_) {
      const int64_t end = std::min(size, begin + kSortedBatches * batch_size_);
      std::stable_sort(samples.begin() + begin, samples.begin() + end, [&](int64_t a, int64_t b) {
        return lengths_[static_cast<size_t>(a)] < lengths_[static_cast<size_t>(b)];
      });
    }
    // A batch that is short stays the last one.
    std::vector<int64_t> order;
    for (const int64_t batch : shuffled(size / batch_size_, generator))
      order.insert(order.end(), samples.begin() + batch * batch_size_,
                   samples.begin() + (batch + 1) * batch_size_);
    order.insert(order.end(), samples.begin() + size / batch_size_ * batch_size_, samples.end());
    return order;
  }

 private:
  const int64_t seed_;
  const std::vector<int64_t> lengths_;
  const int64_t batch_size_;
};

}  // namespace

std::shared_ptr<Sampler> sequential_sampler() {
  return std::make_shared<Sequential>();
}

std::shared_ptr<Sampler> shuffling_sampler(int64_t seed) {
  return std::make_shared<Shuffling>(seed);
}

std::shared_ptr<Sampler> bucketing_sampler(int64_t seed, std::vector<int64_t> lengths, int64_t batch_size) {
  if (batch_size < 1)
    fail(WEFT_INVALID_ARGUMENT, "data loader: batch_size is {}, must be at least 1", batch_size);
  return std::make_shared<Bucketing>(seed, std::move(lengths), batch_size);
}

}  // namespace weft::data
