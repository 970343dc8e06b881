// What kernels over the rows of a (rows, channels) matrix share: a block's threads and its memory for a row,
// and sums over rows.
#pragma once

#include "cuda/device.cuh"

namespace weft::kernels::cuda {

constexpr int kMostThreads = 512, kThreadsOfSum = 1024, kColumns = 32;
// Of a block on sm_86 and sm_89, which have least, less 1 KiB for sums.
constexpr int64_t kSharedBytes = 98 << 10;

// Whole warps with a vector for each thread, or several for each if the row is long.
inline int threads_of(int64_t channels, int vector) {
  const int64_t vectors = (channels + vector - 1) / vector, threads = (vectors + 31) / 32 * 32;
  return static_cast<int>(threads < kMostThreads ? threads : kMostThreads);
}

// Numbers of a row, rounded up to as many for each thread.
inline int64_t room_of_row(int64_t channels, int threads, int vector) {
  const int64_t of_all = int64_t{threads} * vector;
  return (channels + of_all - 1) / of_all * of_all;
}

// Of `floats` in shared memory, which a row of `channels` needs. Throws std::invalid_argument if a block has
// no room for them.
inline size_t bytes_of_sums(const char* function, int64_t channels, int64_t floats) {
  const int64_t bytes = floats * int64_t{sizeof(float)};
  if (bytes > kSharedBytes)
    throw std::invalid_argument(std::string(function) + ": " + std::to_string(channels) + " channels need " +
                                std::to_string(bytes) + " bytes of shared memory; a block has " +
                                std::to_string(kSharedBytes));
  return static_cast<size_t>(bytes);
}

// A block sums kColumns columns: warp w adds up rows w, w + warps, ..., then one warp adds up the warps'
// sums. The second half of the blocks, if there is one, sums a second matrix, which lies behind the first.
template <class T>
__global__ void __launch_bounds__(kThreadsOfSum)
    column_sum_kernel(int64_t rows, int64_t channels, const float* partial, T* first, T* second) {
  constexpr int kWarps = kThreadsOfSum / 32;
  __shared__ float of_warp[kWarps][kColumns];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t blocks = (channels + kColumns - 1) / kColumns;
  const bool is_second = blockIdx.x >= blocks;
  const int64_t channel = (blockIdx.x - (is_second ? blocks : 0)) * kColumns + lane;
  if (is_second) partial += rows * channels;
  float sum = 0;
  if (channel < channels)
#pragma unroll 8
    for (int64_t row = warp; row < rows; row += kWarps) sum += partial[row * channels + channel];
  of_warp[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || channel >= channels) return;
  sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += of_warp[w][lane];
  (is_second ? second : first)[channel] = static_cast<T>(sum);
}

// The sums over the rows of `partial`, which is (rows, channels), or (2, rows, channels) if `second` is not
// null.
template <class T>
void sum_columns(int64_t rows, int64_t channels, const float* partial, T* first, T* second, Stream stream) {
  const int64_t blocks = (channels + kColumns - 1) / kColumns * (second != nullptr ? 2 : 1);
  launch(column_sum_kernel<T>, grid_of(blocks, "blocks of channels"), kThreadsOfSum, 0, stream, rows,
         channels, partial, first, second);
}

}  // namespace weft::kernels::cuda
