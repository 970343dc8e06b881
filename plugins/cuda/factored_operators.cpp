// Weft's operators of Adafactor and CAME.
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <vector>

#include "cuda/factored_rules.hpp"
#include "launch.hpp"
#include "operators.hpp"
#include "weft/device_operators.hpp"

namespace weft::cuda {

namespace {

namespace gpu = kernels::cuda;

constexpr size_t kPlace = 5;  // numbers for each range

// What the operators take. Lists may be empty.
struct FactoredLists {
  at::TensorList values, gradients, row_factors, column_factors;
  at::IntArrayRef places;
  at::ArrayRef<double> rates = {}, keep = {};
};

std::vector<kernels::MatrixRange> places_of(const FactoredLists& lists) {
  std::vector<kernels::MatrixRange> places;
  for (size_t i = 0; i < lists.gradients.size(); ++i) {
    const at::IntArrayRef own = lists.places.slice(kPlace * i, kPlace);
    places.push_back({own[0], lists.gradients[i].numel(), own[1], own[2]});
  }
  return places;
}

template <class T>
std::vector<gpu::FactoredRange<T>> ranges_of(const FactoredLists& lists) {
  const std::vector<kernels::MatrixRange> places = places_of(lists);
  std::vector<gpu::FactoredRange<T>> ranges;
  int64_t first_chunk = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t begin = lists.places[kPlace * i + 3], count = lists.places[kPlace * i + 4];
    const int64_t chunks = (places[i].count + gpu::kChunkElements - 1) / gpu::kChunkElements;
    ranges.push_back({lists.values.empty() ? nullptr : lists.values[i].data_ptr<T>(),
                      lists.gradients[i].const_data_ptr<T>(),
                      lists.row_factors.empty() ? nullptr : lists.row_factors[i].const_data_ptr<T>(),
                      lists.column_factors.empty() ? nullptr : lists.column_factors[i].const_data_ptr<T>(),
                      lists.rates.empty() ? 0 : lists.rates[i], lists.keep.empty() ? 0 : lists.keep[i],
                      places[i], places[i].first_row(), places[i].first_matrix(), begin, begin + count,
                      first_chunk, chunks,
                      /*first_sum=*/0});
    first_chunk += chunks;
  }
  return ranges;
}

// Calls body(T()) with the type of the ranges, fp32 or fp64.
template <class Body>
void with_exact_type(const FactoredLists& lists, const Body& body) {
  const c10::DeviceGuard guard(lists.gradients.front().device());
  if (lists.gradients.front().scalar_type() == at::kDouble)
    body(double());
  else
    body(float());
}

// Calls rule(table) with the table of chunks on the device.
template <class Rule>
void launch_chunks(const FactoredLists& lists, const Rule& rule) {
  with_exact_type(lists, [&]<class T>(T) {
    std::vector<int64_t> lengths;
    for (const at::Tensor& range : lists.gradients) lengths.push_back(range.numel());
    const std::vector<gpu::FactoredRange<T>> ranges = ranges_of<T>(lists);
    const std::vector<gpu::Chunk> chunks = gpu::chunks_of(lengths);
    Tables tables;
    const size_t of_ranges = tables.add(ranges), of_chunks = tables.add(chunks);
    tables.copy_to(lists.gradients.front().device());
    rule(gpu::FactoredTable<T>{tables.at<gpu::FactoredRange<T>>(of_ranges), tables.at<gpu::Chunk>(of_chunks),
                               static_cast<int64_t>(ranges.size()), static_cast<int64_t>(chunks.size())});
  });
}

at::Tensor empty_doubles(int64_t count, const at::Tensor& like) {
  return at::empty({count}, like.options().dtype(at::kDouble));
}

at::Tensor factored_sums(at::TensorList gradients, at::TensorList averages, at::TensorList row_factors,
                         at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates) {
  const FactoredLists lists = {averages, gradients, row_factors, column_factors, places, rates};
  const gpu::FactoredSumsPlan plan(places_of(lists));
  at::Tensor sums;
  with_exact_type(lists, [&]<class T>(T) {
    std::vector<gpu::FactoredRange<T>> ranges = ranges_of<T>(lists);
    for (size_t i = 0; i < ranges.size(); ++i) ranges[i].first_sum = plan.first_sums[i];
    Tables tables;
    const size_t of_ranges = tables.add(ranges), strips = tables.add(plan.strips),
                 tiles = tables.add(plan.tiles), columns = tables.add(plan.columns);
    tables.copy_to(gradients.front().device());
    sums = empty_doubles(plan.num_sums, gradients.front());
    const auto num_tiles = static_cast<int64_t>(plan.tiles.size());
    const at::Tensor parts = empty_doubles(num_tiles * gpu::kTileColumns, gradients.front());
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
  const at::Tensor norms = empty_doubles(static_cast<int64_t>(gradients.size()), gradients.front());
  launch_chunks({{}, gradients, row_factors, column_factors, places}, [&](const auto& table) {
    const at::Tensor parts = empty_doubles(table.num_chunks, norms);
    gpu::factored_norms(table, parts.template mutable_data_ptr<double>(), norms.mutable_data_ptr<double>(),
                        stream());
  });
  return norms;
}

void factored_average(at::TensorList averages, at::TensorList gradients, at::TensorList row_factors,
                      at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates,
                      double beta) {
  launch_chunks({averages, gradients, row_factors, column_factors, places, rates},
                [&](const auto& table) { gpu::factored_average(table, beta, stream()); });
}

void factored_step(at::TensorList values, at::TensorList gradients, at::TensorList row_factors,
                   at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates,
                   at::ArrayRef<double> keep) {
  launch_chunks({values, gradients, row_factors, column_factors, places, rates, keep},
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
