#include "cuda/column_sums.hpp"

#include "cuda/rows.cuh"
#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
// Four blocks on each multiprocessor of the largest GPUs, unless that leaves a warp less than 8 rows.
constexpr int64_t kBlocks = 512, kLeastRows = 8 * kWarps;
constexpr int64_t kColumnsOfAStrip = 256;  // 16 bytes of half precision for each lane

// A block has a strip of columns, each lane a vector of them, and a range of rows: warp w adds up rows w,
// w + warps, ..., then the warps' sums are added up. `sums` gets them if there is one part, or else
// `partial`.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    strip_kernel(int64_t rows, int64_t channels, int64_t strips, int64_t rows_of_a_part, const T* x,
                 float* partial, T* sums) {
  __shared__ float of_warp[kWarps][N][32 + 32 / N];  // below, a warp reads all banks
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t part = blockIdx.x / strips, first = (blockIdx.x - part * strips) * 32 * N;
  const int64_t begin = part * rows_of_a_part;
  const int64_t end = rows - begin < rows_of_a_part ? rows : begin + rows_of_a_part;
  float sum[N] = {};
  if (first + N * lane < channels) {
    x += first + N * lane;
#pragma unroll 4
    for (int64_t row = begin + warp; row < end; row += kWarps) {
      float value[N];
      load(x + row * channels, value);
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
  for (int w = 0; w < kWarps; ++w) total += of_warp[w][column % N][column / N];
  if (sums != nullptr)
    sums[first + column] = static_cast<T>(total);
  else
    partial[part * channels + first + column] = total;
}

template <class T, int N>
void run(int64_t rows, int64_t channels, const T* x, float* partial, T* sums, Stream stream) {
  static_assert(32 * N <= kThreads);
  const int64_t parts = column_sum_parts(rows, channels), strips = (channels + 32 * N - 1) / (32 * N);
  launch(strip_kernel<T, N>, grid_of(strips * parts, "blocks of rows and columns"), kThreads, 0, stream, rows,
         channels, strips, (rows + parts - 1) / parts, x, partial, parts == 1 ? sums : nullptr);
  if (parts > 1) sum_columns<T>(parts, channels, partial, sums, nullptr, stream);
}

}  // namespace

int64_t column_sum_parts(int64_t rows, int64_t channels) {
  const int64_t strips = (channels + kColumnsOfAStrip - 1) / kColumnsOfAStrip;
  if (strips == 0 || rows <= kLeastRows) return 1;
  const int64_t wanted = (kBlocks + strips - 1) / strips, most = (rows + kLeastRows - 1) / kLeastRows;
  return wanted < most ? wanted : most;
}

template <class T>
void column_sums(int64_t rows, int64_t channels, const T* x, float* partial, T* sums, Stream stream) {
  if (channels == 0) return;
  if (channels % kVector<T> == 0 && aligned<kVector<T>>(x))
    run<T, kVector<T>>(rows, channels, x, partial, sums, stream);
  else
    run<T, 1>(rows, channels, x, partial, sums, stream);
}
template void column_sums(int64_t, int64_t, const float*, float*, float*, Stream);
template void column_sums(int64_t, int64_t, const c10::BFloat16*, float*, c10::BFloat16*, Stream);
template void column_sums(int64_t, int64_t, const c10::Half*, float*, c10::Half*, Stream);

}  // namespace weft::kernels::cuda
