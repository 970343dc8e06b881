#include "loader/counted_positions.hpp"

#include <ATen/ops/arange.h>

#include "device/tensors.hpp"
#include "loader/derived_dataset.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

namespace {

class CountedPositions final : public DerivedDataset {
 public:
  explicit CountedPositions(std::shared_ptr<Dataset> dataset)
      : DerivedDataset(std::move(dataset), own_name) {}

 private:
  void check(const Batch&) const override {}  // the model checks the mask
  void make(const std::vector<int64_t>&, int64_t, Batch& batch) const override {
    const at::Tensor tokens = batch.at(nn::kAttentionMask).ne(0).to(at::kLong);
    if (device::value_of<bool>(tokens.select(-1, 0).ne(0).all())) return;  // the model's own begin with 0
    const at::Tensor places = at::arange(tokens.size(-1), at::kLong);
    batch.set(nn::kPositions, places.sub(tokens.argmax(-1, true)).clamp_min(0));
  }
};

}  // namespace

std::shared_ptr<Dataset> with_counted_positions(std::shared_ptr<Dataset> dataset) {
  const Batch first = dataset->get({0});
  if (!first.has(nn::kAttentionMask) || first.has(nn::kPositions)) return dataset;
  return std::make_shared<CountedPositions>(std::move(dataset));
}

}  // namespace weft::data
