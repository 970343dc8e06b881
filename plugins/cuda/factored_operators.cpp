// Weft's operators of Adafactor and CAME.
#include <torch/library.h>

#include <vector>

#include "cuda/factored_rules.hpp"
#include "operators.hpp"
#include "summed_ranges.hpp"
#include "weft/device_operators.hpp"

namespace weft::cuda {

namespace {

namespace gpu = kernels::cuda;

// What the operators take. Lists may be empty.
struct FactoredLists {
  at::TensorList values, gradients, row_factors, column_factors;
  at::IntArrayRef places;
  at::ArrayRef<double> rates = {}, keep = {};

  kernels::CountedRange place(size_t i) const {
    return kernels::counted_range(places.data(), i, gradients[i].numel());
  }
};

template <class T>
std::vector<gpu::FactoredRange<T>> ranges_of(const FactoredLists& lists) {
  const auto address = [](at::TensorList list, size_t i) {
    return list.empty() ? nullptr : list[i].const_data_ptr<T>();
  };
  std::vector<gpu::FactoredRange<T>> ranges;
  for (size_t i = 0; i < lists.gradients.size(); ++i) {
    const kernels::CountedRange place = lists.place(i);
    ranges.push_back({.value = lists.values.empty() ? nullptr : lists.values[i].data_ptr<T>(),
                      .gradient = address(lists.gradients, i),
                      .row_factors = address(lists.row_factors, i),
                      .column_factors = address(lists.column_factors, i),
                      .rate = lists.rates.empty() ? 0 : lists.rates[i],
                      .keep = lists.keep.empty() ? 0 : lists.keep[i],
                      .place = place.range,
                      .first_row = place.range.first_row(),
                      .first_matrix = place.range.first_matrix(),
                      .counted_begin = place.counted_begin,
                      .counted_end = place.counted_begin + place.counted_count});
  }
  return ranges;
}

// Calls rule(table) with the table of ranges on the device.
template <class Rule>
void launch_ranges(const FactoredLists& lists, const Rule& rule) {
  with_exact_type(lists.gradients.front(),
                  [&]<class T>(T) { launch_summed(lists.gradients, ranges_of<T>(lists), rule); });
}

at::Tensor factored_sums(at::TensorList gradients, at::TensorList averages, at::TensorList row_factors,
                         at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates) {
  const FactoredLists lists = {averages, gradients, row_factors, column_factors, places, rates};
  std::vector<kernels::MatrixRange> matrices;
  for (size_t i = 0; i < gradients.size(); ++i) matrices.push_back(lists.place(i).range);
  const gpu::FactoredSumsPlan plan(matrices);
  at::Tensor sums;
  with_exact_type(gradients.front(), [&]<class T>(T) {
    std::vector<gpu::FactoredRange<T>> ranges = ranges_of<T>(lists);
    for (size_t i = 0; i < ranges.size(); ++i) ranges[i].first_sum = plan.first_sums[i];
    Tables tables;
    const size_t of_ranges = tables.add(ranges), strips = tables.add(plan.strips),
                 tiles = tables.add(plan.tiles), columns = tables.add(plan.columns);
    tables.copy_to(gradients.front().device());
    sums = empty_doubles({plan.num_sums}, gradients.front());
    const auto num_tiles = static_cast<int64_t>(plan.tiles.size());
    const at::Tensor parts = empty_doubles({num_tiles * gpu::kTileColumns}, gradients.front());
    gpu::factored_sums<T>(
        {tables.at<gpu::FactoredRange<T>>(of_ranges), tables.at<gpu::Tile>(strips),
         tables.at<gpu::Tile>(tiles), tables.at<gpu::TileColumns>(columns),
         static_cast<int64_t>(plan.strips.size()), num_tiles, static_cast<int64_t>(plan.columns.size())},
        parts.mutable_data_ptr<double>(), sums.mutable_data_ptr<double>(), stream());
  });
  return sums;
}

at::Tensor factored_norms(at::TensorList gradients, at::TensorList row_factors, at::TensorList column_factors,
                          at::IntArrayRef places) {
  const at::Tensor norms = empty_doubles({static_cast<int64_t>(gradients.size())}, gradients.front());
  launch_ranges({{}, gradients, row_factors, column_factors, places}, [&](const auto& table) {
    const at::Tensor parts = empty_doubles({table.num_chunks}, norms);
    gpu::factored_norms(table, parts.template mutable_data_ptr<double>(), norms.mutable_data_ptr<double>(),
                        stream());
  });
  return norms;
}

void factored_average(at::TensorList averages, at::TensorList gradients, at::TensorList row_factors,
                      at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates,
                      double beta) {
  launch_ranges({averages, gradients, row_factors, column_factors, places, rates},
                [&](const auto& table) { gpu::factored_average(table, beta, stream()); });
}

void factored_step(at::TensorList values, at::TensorList gradients, at::TensorList row_factors,
                   at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates,
                   at::ArrayRef<double> keep) {
  launch_ranges({values, gradients, row_factors, column_factors, places, rates, keep},
                [&](const auto& table) { gpu::factored_step(table, stream()); });
}

}  // namespace

void implement_factored_updates(torch::Library& library) {
  using namespace operators;
  implement<FactoredSums>(library, factored_sums);
  implement<FactoredNorms>(library, factored_norms);
  implement<FactoredAverage>(library, factored_average);
  implement<FactoredStep>(library, factored_step);
}

}  // namespace weft::cuda
