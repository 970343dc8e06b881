#include "optim/directions.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>

#include <map>

#include "device/tensors.hpp"

namespace weft::optim {

namespace {

at::Tensor select(const at::Tensor& factors, std::vector<int64_t>& indices) {
  return factors.index_select(
      0, at::from_blob(indices.data(), {static_cast<int64_t>(indices.size())}, at::kLong));
}

// Copies the factors from host memory to the device of the slices, all at once.
void copy_factors(Directions& directions) {
  std::vector<at::Tensor*> here;
  for (std::vector<at::Tensor>* const list : {&directions.row_factors, &directions.column_factors})
    for (at::Tensor& factors : *list)
      if (device::is_on_host(factors)) here.push_back(&factors);
  std::vector<at::Tensor> all;
  std::vector<int64_t> sizes;
  for (const at::Tensor* factors : here) {
    all.push_back(*factors);
    sizes.push_back(factors->numel());
  }
  const std::vector<at::Tensor> there =
      device::copy_to(at::cat(all), directions.values.front().device()).split_with_sizes(sizes);
  for (size_t i = 0; i < here.size(); ++i) *here[i] = there[i];
}

}  // namespace

Factors factors_of(const at::Tensor& rows, const at::Tensor& columns) {
  return {(rows / rows.mean(-1, /*keepdim=*/true)).rsqrt().flatten(), columns.rsqrt().flatten()};
}

std::vector<at::Tensor> Directions::states(const std::string& name) const {
  std::vector<at::Tensor> result;
  for (const Slice* slice : slices) result.push_back(slice->state->at(name));
  return result;
}

std::vector<Directions> directions_of(std::vector<Slice>& slices,
                                      const std::function<Factors(const Whole&)>& factors) {
  std::map<bool, Directions> by_place;  // key: whether in host memory
  std::map<const Whole*, Factors> known;
  for (Slice& slice : slices) {
    if (slice.value.numel() == 0) continue;
    Directions& own = by_place[device::is_on_host(slice.value)];
    own.slices.push_back(&slice);
    own.values.push_back(slice.value);
    own.gradients.push_back(slice.gradient);
    if (is_factored(slice.parameter->shape)) {
      const auto [entry, added] = known.try_emplace(slice.parameter);
      if (added) entry->second = factors(*slice.parameter);
      MatrixSlice place(slice);
      add_place(slice, place.range, own.places);
      own.row_factors.push_back(select(entry->second.rows, place.rows));
      own.column_factors.push_back(select(entry->second.columns, place.columns));
    } else {
      const int64_t count = slice.value.numel();
      add_place(slice, {0, count, 1, count}, own.places);
      own.row_factors.push_back(at::ones({1}, slice.value.scalar_type()));
      own.column_factors.push_back(slice.state->at("exp_avg_sq").rsqrt());
    }
  }
  std::vector<Directions> result;
  for (auto& [on_host, own] : by_place) {
    if (!on_host) copy_factors(own);
    result.push_back(std::move(own));
  }
  return result;
}

void add_place(const Slice& slice, const kernels::MatrixRange& range, std::vector<int64_t>& places) {
  places.insert(places.end(),
                {range.begin, range.rows, range.columns, slice.counted_begin, slice.counted_count});
}

}  // namespace weft::optim
