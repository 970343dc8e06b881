#include "cuda/column_sums.hpp"

#include "cuda/strips.cuh"

namespace weft::kernels::cuda {

namespace {

// Four blocks on each multiprocessor of the largest GPUs, unless that leaves a warp less than 8 rows.
constexpr int64_t kBlocks = 512, kLeastRows = 8 * kWarpsOfStrip;
constexpr int64_t kColumnsOfAStrip = 256;  // 16 bytes of half precision for each lane

template <class T, int N>
struct Read {
  static constexpr int kRowsAtOnce = 4;
  const T* x;
  __device__ void operator()(int64_t at, float (&value)[N]) const { load(x + at, value); }
};

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
    sum_strips<T, kVector<T>>(rows, channels, Read<T, kVector<T>>{x}, partial, sums, stream);
  else
    sum_strips<T, 1>(rows, channels, Read<T, 1>{x}, partial, sums, stream);
}
template void column_sums(int64_t, int64_t, const float*, float*, float*, Stream);
template void column_sums(int64_t, int64_t, const c10::BFloat16*, float*, c10::BFloat16*, Stream);
template void column_sums(int64_t, int64_t, const c10::Half*, float*, c10::Half*, Stream);

}  // namespace weft::kernels::cuda
