// Kernels over the chunks of a SummedTable, and sums of what they add up.
#pragma once

#include "cuda/range_rules.hpp"
#include "cuda/reduce.cuh"

namespace weft::kernels::cuda {

namespace {

constexpr int kThreads = 256;
[[maybe_unused]] constexpr int kBlocks = 4;  // on a multiprocessor: without it, the compiler spills to have 8

// Calls element(range, i) for each element of this block's chunk.
template <class Range, class Element>
__device__ void for_chunk(const SummedTable<Range>& table, const Element& element) {
  const Chunk chunk = table.chunks[blockIdx.x];
  const Range range = table.ranges[chunk.range];
  for (int64_t i = chunk.begin + threadIdx.x; i < chunk.begin + chunk.count; i += kThreads) element(range, i);
}

// A block adds up the `count` numbers of each chunk of one range.
template <class Range>
__global__ void __launch_bounds__(kThreads)
    range_sums_kernel(const SummedTable<Range> table, int count, const double* parts, double* sums) {
  const Range range = table.ranges[blockIdx.x];
  for (int k = 0; k < count; ++k) {
    double sum = 0;
    for (int64_t c = threadIdx.x; c < range.num_chunks; c += kThreads)
      sum += parts[(range.first_chunk + c) * count + k];
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[int64_t{blockIdx.x} * count + k] = sum;
  }
}

template <class Range>
void sum_ranges(const SummedTable<Range>& table, int count, const double* parts, double* sums,
                Stream stream) {
  if (table.num_ranges == 0) return;
  launch(range_sums_kernel<Range>, grid_of(table.num_ranges, "ranges"), kThreads, 0, stream, table, count,
         parts, sums);
}

}  // namespace

}  // namespace weft::kernels::cuda
