#include "loader/mixture.hpp"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.hpp"
#include "loader/permutation.hpp"

namespace weft::data {

Batch joined_batches(const std::vector<Batch>& rows) {
  Batch batch;
  for (const auto& [field, first] : rows.front()) {
    std::vector<at::Tensor> tensors;
    for (const Batch& row : rows) tensors.push_back(row.at(field));
    batch.set(field, at::cat(tensors));
  }
  return batch;
}

namespace {

// Where a sample comes from.
struct Origin {
  size_t dataset;
  int64_t sample;
};

class Several : public Dataset {
 public:
  explicit Several(std::vector<std::shared_ptr<Dataset>> datasets) : datasets_(std::move(datasets)) {}

  std::string name() const final {
    std::vector<std::string> names;
    for (const auto& dataset : datasets_) names.push_back(dataset->name());
    return fmt::format("{}", fmt::join(names, ", "));
  }
  std::string objective() const final { return datasets_.front()->objective(); }
  std::string attention() const final { return datasets_.front()->attention(); }
  Batch get(const std::vector<int64_t>& indices) const final { return get_in_epoch(indices, 0); }
  Batch get_in_epoch(const std::vector<int64_t>& indices, int64_t epoch) const final {
    std::vector<Batch> rows;
    for (const int64_t index : indices) {
      if (index < 0 || index >= size())
        fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", name(), index, size());
      const Origin from = origin(index, epoch);
      rows.push_back(datasets_[from.dataset]->get_in_epoch({from.sample}, epoch));
    }
    return joined_batches(rows);
  }

 protected:
  virtual Origin origin(int64_t index, int64_t epoch) const = 0;
  const std::vector<std::shared_ptr<Dataset>> datasets_;
};

class Concatenation final : public Several {
 public:
  explicit Concatenation(const std::vector<std::shared_ptr<Dataset>>& datasets) : Several(datasets) {
    for (const auto& dataset : datasets) begins_.push_back(begins_.back() + dataset->size());
  }
  int64_t size() const override { return begins_.back(); }

 private:
  Origin origin(int64_t index, int64_t) const override {
    const auto found = std::upper_bound(begins_.begin(), begins_.end(), index) - 1;
    return {static_cast<size_t>(found - begins_.begin()), index - *found};
  }
  std::vector<int64_t> begins_ = {0};
};

std::vector<std::shared_ptr<Dataset>> datasets_of(const std::vector<MixturePart>& parts) {
  std::vector<std::shared_ptr<Dataset>> datasets;
  for (const MixturePart& part : parts) datasets.push_back(part.dataset);
  return datasets;
}

class Mixture final : public Several {
 public:
  Mixture(const std::vector<MixturePart>& parts, int64_t seed) : Several(datasets_of(parts)), seed_(seed) {
    double weights = 0;
    int64_t samples = 0;
    for (const MixturePart& part : parts) {
      weights += part.weight;
      samples += part.dataset->size();
    }
    for (const MixturePart& part : parts)
      shares_.push_back(
          std::max<int64_t>(1, std::llround(part.weight / weights * static_cast<double>(samples))));
    spread();
  }
  int64_t size() const override { return static_cast<int64_t>(order_.size()); }

 private:
  // Sample k of n of a data set comes at (k + 1/2) / n of the epoch.
  void spread() {
    std::vector<int64_t> taken(shares_.size());
    order_.resize(static_cast<size_t>(std::reduce(shares_.begin(), shares_.end())));
    const auto time = [&](size_t i) {
      return (static_cast<double>(taken[i]) + 0.5) / static_cast<double>(shares_[i]);
    };
    for (Origin& origin : order_) {
      size_t next = 0;
      for (size_t i = 1; i < shares_.size(); ++i)
        if (time(i) < time(next)) next = i;
      origin = {next, taken[next]++};
    }
  }

  Origin origin(int64_t index, int64_t epoch) const override {
    const auto [dataset, taken] = order_[static_cast<size_t>(index)];
    const int64_t size = datasets_[dataset]->size();
    // The samples of a data set come in rounds over all of them, which epochs do not interrupt.
    const int64_t drawn = epoch * shares_[dataset] + taken, round = drawn / size;
    const uint64_t key =
        mixed(mixed(mixed(static_cast<uint64_t>(seed_)) + dataset) + static_cast<uint64_t>(round));
    return {dataset, permuted(drawn % size, size, key)};
  }

  const int64_t seed_;
  std::vector<int64_t> shares_;  // samples of each data set in an epoch
  std::vector<Origin> order_;    // of an epoch; `sample` counts those of its data set
};

}  // namespace

std::shared_ptr<Dataset> concatenation(const std::vector<std::shared_ptr<Dataset>>& datasets) {
  return std::make_shared<Concatenation>(datasets);
}

std::shared_ptr<Dataset> mixture(const std::vector<MixturePart>& parts, int64_t seed) {
  return std::make_shared<Mixture>(parts, seed);
}

}  // namespace weft::data
