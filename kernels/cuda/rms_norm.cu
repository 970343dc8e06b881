#include "cuda/rms_norm.hpp"

#include "cuda/reduce.cuh"
#include "cuda/rows.cuh"
#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

namespace {

// Enough blocks for four on each multiprocessor of the largest GPUs; their sums are 1/32 of the memory that
// backward reads if there are 32 rows for each.
constexpr int64_t kMostParts = 512;

// The rows are read twice, the second time from the first cache: a thread for each vector of the row, and as
// few threads as that allows, since rows are many.
template <class T, int N>
__global__ void __launch_bounds__(kMostThreads)
    forward_kernel(int64_t channels, float epsilon, const T* x, const T* weight, T* y, float* scale) {
  const int64_t row = blockIdx.x;
  x += row * channels;
  y += row * channels;
  const int64_t begin = N * static_cast<int64_t>(threadIdx.x), stride = N * static_cast<int64_t>(blockDim.x);
  float squares = 0, value[N], w[N];
  for (int64_t c = begin; c < channels; c += stride) {
    load(x + c, value);
#pragma unroll
    for (int k = 0; k < N; ++k) squares += value[k] * value[k];
  }
  const float factor = 1 / sqrtf(block_sum(squares) / static_cast<float>(channels) + epsilon);
  if (threadIdx.x == 0) scale[row] = factor;
  for (int64_t c = begin; c < channels; c += stride) {
    load(x + c, value);
    load(weight + c, w);
#pragma unroll
    for (int k = 0; k < N; ++k) value[k] = static_cast<float>(static_cast<T>(value[k] * factor)) * w[k];
    store(value, y + c);
  }
}

// A block takes every gridDim.x-th row and keeps its part of dweight in shared memory, where each thread has
// its own channels, those of one lane beside those of the next.
template <class T, int N>
__global__ void __launch_bounds__(kMostThreads)
    backward_kernel(int64_t rows, int64_t channels, const T* x, const T* weight, const float* scale,
                    const T* dy, const T* residual, T* dx, float* partial) {
  WEFT_DYNAMIC_SHARED(float, shared);
  float* const sums = shared + threadIdx.x;
  const int64_t begin = N * static_cast<int64_t>(threadIdx.x), stride = N * static_cast<int64_t>(blockDim.x);
  const int threads = static_cast<int>(blockDim.x);
  if (partial != nullptr) {
    int at = 0;
    for (int64_t c = begin; c < channels; c += stride)
      for (int k = 0; k < N; ++k, at += threads) sums[at] = 0;
  }
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const of_x = x + row * channels;
    const T* const of_dy = dy + row * channels;
    const float factor = scale[row];
    float products = 0, value[N], w[N], up[N];
    int at = 0;
    for (int64_t c = begin; c < channels; c += stride) {
      load(of_x + c, value);
      load(weight + c, w);
      load(of_dy + c, up);
#pragma unroll
      for (int k = 0; k < N; ++k) products += value[k] * w[k] * up[k];
      if (partial != nullptr) {
#pragma unroll
        for (int k = 0; k < N; ++k, at += threads) sums[at] += value[k] * up[k] * factor;
      }
    }
    const float common = block_sum(products) / static_cast<float>(channels) * factor * factor;
    for (int64_t c = begin; c < channels; c += stride) {
      load(of_x + c, value);
      load(weight + c, w);
      load(of_dy + c, up);
#pragma unroll
      for (int k = 0; k < N; ++k) value[k] = factor * (up[k] * w[k] - value[k] * common);
      if (residual != nullptr) {
        load(residual + row * channels + c, up);
#pragma unroll
        for (int k = 0; k < N; ++k) value[k] += up[k];
      }
      store(value, dx + row * channels + c);
    }
  }
  if (partial == nullptr) return;
  int at = 0;
  for (int64_t c = begin; c < channels; c += stride)
    for (int k = 0; k < N; ++k, at += threads) partial[blockIdx.x * channels + c + k] = sums[at];
}

template <class T, int N>
void run_backward(int64_t rows, int64_t channels, const T* x, const T* weight, const float* scale,
                  const T* dy, const T* residual, T* dx, float* partial, Stream stream) {
  const int threads = threads_of(channels, N);
  const int64_t floats = partial != nullptr ? room_of_row(channels, threads, N) : 0;
  launch(backward_kernel<T, N>, rms_norm_parts(rows), threads,
         bytes_of_sums("rms_norm_backward", channels, floats), stream, rows, channels, x, weight, scale, dy,
         residual, dx, partial);
}

}  // namespace

template <class T>
void rms_norm_forward(int64_t rows, int64_t channels, float epsilon, const T* x, const T* weight, T* y,
                      float* scale, Stream stream) {
  if (rows == 0 || channels == 0) return;
  const int64_t blocks = grid_of(rows, "rows");
  if (channels % kVector<T> == 0 && aligned<kVector<T>>(x) && aligned<kVector<T>>(weight) &&
      aligned<kVector<T>>(y))
    launch(forward_kernel<T, kVector<T>>, blocks, threads_of(channels, kVector<T>), 0, stream, channels,
           epsilon, x, weight, y, scale);
  else
    launch(forward_kernel<T, 1>, blocks, threads_of(channels, 1), 0, stream, channels, epsilon, x, weight, y,
           scale);
}

int64_t rms_norm_parts(int64_t rows) {
  return rows < kMostParts ? rows : kMostParts;
}

template <class T>
void rms_norm_backward(int64_t rows, int64_t channels, const T* x, const T* weight, const float* scale,
                       const T* dy, const T* residual, T* dx, float* partial, T* dweight, Stream stream) {
  if (channels == 0) return;
  if ((partial == nullptr) != (dweight == nullptr))
    throw std::invalid_argument("rms_norm_backward: partial and dweight must both be given or both be null");
  if (rows > 0) {
    if (channels % kVector<T> == 0 && aligned<kVector<T>>(x) && aligned<kVector<T>>(weight) &&
        aligned<kVector<T>>(dy) && aligned<kVector<T>>(residual) && aligned<kVector<T>>(dx))
      run_backward<T, kVector<T>>(rows, channels, x, weight, scale, dy, residual, dx, partial, stream);
    else
      run_backward<T, 1>(rows, channels, x, weight, scale, dy, residual, dx, partial, stream);
  }
  if (dweight == nullptr) return;
  sum_columns<T>(rms_norm_parts(rows), channels, partial, dweight, nullptr, stream);
}

#define WEFT_INSTANTIATE(T)                                                                               \
  template void rms_norm_forward(int64_t, int64_t, float, const T*, const T*, T*, float*, Stream);        \
  template void rms_norm_backward(int64_t, int64_t, const T*, const T*, const float*, const T*, const T*, \
                                  T*, float*, T*, Stream);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(c10::BFloat16)
WEFT_INSTANTIATE(c10::Half)

}  // namespace weft::kernels::cuda
