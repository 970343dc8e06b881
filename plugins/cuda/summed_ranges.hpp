// What operators of optimizers need to start a kernel for many ranges that may add up sums.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include <vector>

#include "cuda/range_rules.hpp"
#include "launch.hpp"

namespace weft::cuda {

inline std::vector<int64_t> lengths_of(at::TensorList ranges) {
  std::vector<int64_t> lengths;
  for (const at::Tensor& range : ranges) lengths.push_back(range.numel());
  return lengths;
}

inline at::Tensor empty_doubles(at::IntArrayRef shape, const at::Tensor& like) {
  return at::empty(shape, like.options().dtype(at::kDouble));
}

// Calls body(T()) with the type of a range, fp32 or fp64, on its device.
template <class Body>
void with_exact_type(const at::Tensor& range, const Body& body) {
  const c10::DeviceGuard guard(range.device());
  if (range.scalar_type() == at::kDouble)
    body(double());
  else
    body(float());
}

// Calls rule(table) with the ranges, one for each tensor, and their chunks on the device. Numbers the chunks.
template <class Range, class Rule>
void launch_summed(at::TensorList tensors, std::vector<Range> ranges, const Rule& rule) {
  int64_t first_chunk = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    ranges[i].first_chunk = first_chunk;
    ranges[i].num_chunks =
        (tensors[i].numel() + kernels::cuda::kChunkElements - 1) / kernels::cuda::kChunkElements;
    first_chunk += ranges[i].num_chunks;
  }
  Tables tables;
  const std::vector<kernels::cuda::Chunk> chunks = kernels::cuda::chunks_of(lengths_of(tensors));
  const size_t of_ranges = tables.add(ranges), of_chunks = tables.add(chunks);
  tables.copy_to(tensors.front().device());
  rule(kernels::cuda::SummedTable<Range>{
      tables.at<Range>(of_ranges), tables.at<kernels::cuda::Chunk>(of_chunks),
      static_cast<int64_t>(ranges.size()), static_cast<int64_t>(chunks.size())});
}

}  // namespace weft::cuda
