#include "cuda/gelu.hpp"

#include "cuda/rows.cuh"
#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

namespace {

// Enough blocks to fill the largest GPUs; the parts are a small share of the memory that the kernel moves.
constexpr int64_t kParts = 512;

// A block has a range of rows, and of them as many columns as its threads have vectors, so that it moves
// memory in one piece. Each thread adds up its own columns.
template <Gelu kKind, class T, int N>
__global__ void __launch_bounds__(kMostThreads)
    backward_kernel(int64_t rows, int64_t channels, int64_t strips, int64_t rows_of_a_part, const T* x,
                    const T* dy, T* dx, float* partial) {
  const int64_t part = blockIdx.x / strips, strip = blockIdx.x - part * strips;
  const int64_t column = N * (strip * blockDim.x + threadIdx.x);
  if (column >= channels) return;
  const int64_t begin = part * rows_of_a_part;
  const int64_t end = rows - begin < rows_of_a_part ? rows : begin + rows_of_a_part;
  float sum[N] = {}, value[N], from[N];
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * channels + column;
    load(x + at, value);
    load(dy + at, from);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      value[k] = gelu_gradient<kKind>(value[k], from[k]);
      sum[k] += value[k];
    }
    store(value, dx + at);
  }
#pragma unroll
  for (int k = 0; k < N; ++k) partial[part * channels + column + k] = sum[k];
}

template <Gelu kKind, class T, int N>
void run(int64_t rows, int64_t channels, const T* x, const T* dy, T* dx, float* partial, Stream stream) {
  const int threads = threads_of(channels, N);
  const int64_t of_a_strip = int64_t{threads} * N, strips = (channels + of_a_strip - 1) / of_a_strip;
  const int64_t parts = gelu_parts(rows);
  launch(backward_kernel<kKind, T, N>, grid_of(strips * parts, "blocks of rows and columns"), threads, 0,
         stream, rows, channels, strips, (rows + parts - 1) / parts, x, dy, dx, partial);
}

template <Gelu kKind, class T>
void run(int64_t rows, int64_t channels, const T* x, const T* dy, T* dx, float* partial, Stream stream) {
  constexpr int kN = kVector<T>;
  if (channels % kN == 0 && aligned<kN>(x) && aligned<kN>(dy) && aligned<kN>(dx))
    run<kKind, T, kN>(rows, channels, x, dy, dx, partial, stream);
  else
    run<kKind, T, 1>(rows, channels, x, dy, dx, partial, stream);
}

}  // namespace

int64_t gelu_parts(int64_t rows) {
  return rows < kParts ? rows : kParts;
}

template <class T>
void gelu_backward(Gelu kind, int64_t rows, int64_t channels, const T* x, const T* dy, T* dx, float* partial,
                   T* sums, Stream stream) {
  if (channels == 0) return;
  if (rows > 0 && kind == Gelu::kErf) run<Gelu::kErf>(rows, channels, x, dy, dx, partial, stream);
  if (rows > 0 && kind == Gelu::kTanh) run<Gelu::kTanh>(rows, channels, x, dy, dx, partial, stream);
  sum_columns<T>(gelu_parts(rows), channels, partial, sums, nullptr, stream);
}

#define WEFT_INSTANTIATE(T) \
  template void gelu_backward(Gelu, int64_t, int64_t, const T*, const T*, T*, float*, T*, Stream);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(c10::BFloat16)
WEFT_INSTANTIATE(c10::Half)

}  // namespace weft::kernels::cuda
