// Sums over the rows of a (rows, channels) matrix whose elements a kernel reads or computes in one pass.
#pragma once

#include "cuda/column_sums.hpp"
#include "cuda/rows.cuh"
#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

constexpr int kThreadsOfStrip = 256, kWarpsOfStrip = kThreadsOfStrip / 32;

// A block has a strip of columns, each lane a vector of them, and a range of rows: warp w adds up rows w,
// w + warps, ..., then the warps' sums are added up. `sums` gets them if there is one part, or else
// `partial`. element(at, value) gives the N elements from `at` on; Element::kRowsAtOnce calls are in flight.
template <class T, int N, class Element>
__global__ void __launch_bounds__(kThreadsOfStrip)
    strip_kernel(int64_t rows, int64_t channels, int64_t strips, int64_t rows_of_a_part, Element element,
                 float* partial, T* sums) {
  __shared__ float of_warp[kWarpsOfStrip][N][32 + 32 / N];  // below, a warp reads all banks
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t part = blockIdx.x / strips, first = (blockIdx.x - part * strips) * 32 * N;
  const int64_t begin = part * rows_of_a_part;
  const int64_t end = rows - begin < rows_of_a_part ? rows : begin + rows_of_a_part;
  float sum[N] = {};
  if (first + N * lane < channels) {
#pragma unroll Element::kRowsAtOnce
    for (int64_t row = begin + warp; row < end; row += kWarpsOfStrip) {
      float value[N];
      element(row * channels + first + N * lane, value);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] += value[k];
    }
  }
#pragma unroll
  for (int k = 0; k < N; ++k) of_warp[warp][k][lane] = sum[k];
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= 32 * N || first + column >= channels) return;
  float total = 0;
#pragma unroll
  for (int w = 0; w < kWarpsOfStrip; ++w) total += of_warp[w][column % N][column / N];
  if (sums != nullptr)
    sums[first + column] = static_cast<T>(total);
  else
    partial[part * channels + first + column] = total;
}

// Fills `sums`. partial: (column_sum_parts(rows, channels), channels), working memory.
template <class T, int N, class Element>
void sum_strips(int64_t rows, int64_t channels, const Element& element, float* partial, T* sums,
                Stream stream) {
  static_assert(32 * N <= kThreadsOfStrip);
  const int64_t parts = column_sum_parts(rows, channels), strips = (channels + 32 * N - 1) / (32 * N);
  launch(strip_kernel<T, N, Element>, grid_of(strips * parts, "blocks of rows and columns"), kThreadsOfStrip,
         0, stream, rows, channels, strips, (rows + parts - 1) / parts, element, partial,
         parts == 1 ? sums : nullptr);
  if (parts > 1) sum_columns<T>(parts, channels, partial, sums, nullptr, stream);
}

}  // namespace weft::kernels::cuda
