#include "cuda/layer_norm.hpp"

#include <cstring>

#include "cuda/reduce.cuh"
#include "cuda/rows.cuh"
#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

namespace {

// Of the parts: enough blocks for four on each multiprocessor of the largest GPUs, or eight where each still
// has 16 rows, so that the sums are a small part of the memory that backward reads.
constexpr int64_t kManyParts = 512, kMostParts = 1024, kRowsOfAPart = 16;

// A thread for each vector of the row, which stays in registers if kOnce; a longer row is read three times,
// from the first cache after the first time.
template <class T, int N, bool kOnce>
__global__ void __launch_bounds__(kMostThreads)
    forward_kernel(int64_t channels, float epsilon, const T* x, const T* weight, const T* bias, T* y,
                   float* mean, float* scale) {
  const int64_t row = blockIdx.x;
  x += row * channels;
  y += row * channels;
  const int64_t begin = N * static_cast<int64_t>(threadIdx.x), stride = N * static_cast<int64_t>(blockDim.x);
  const float count = static_cast<float>(channels);
  float sum = 0, squares = 0, value[N] = {}, w[N], b[N];
  for (int64_t c = begin; c < channels; c += stride) {
    load(x + c, value);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += value[k];
  }
  const float middle = block_sum(sum) / count;
  for (int64_t c = begin; c < channels; c += stride) {
    if (!kOnce) load(x + c, value);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float centred = value[k] - middle;
      squares += centred * centred;
    }
  }
  const float factor = 1 / sqrtf(block_sum(squares) / count + epsilon);
  if (threadIdx.x == 0) {
    mean[row] = middle;
    scale[row] = factor;
  }
  for (int64_t c = begin; c < channels; c += stride) {
    if (!kOnce) load(x + c, value);
    load(weight + c, w);
    load(bias + c, b);
#pragma unroll
    for (int k = 0; k < N; ++k) value[k] = (value[k] - middle) * factor * w[k] + b[k];
    store(value, y + c);
  }
}

// A Pack that waits in registers: as words, since nvcc gives each half-precision number a register of its
// own.
template <class T, int N>
struct Waiting {
  static constexpr bool kWords = sizeof(T) * N % sizeof(uint32_t) == 0;
  using Type =
      std::conditional_t<kWords, Pack<uint32_t, kWords ? sizeof(T) * N / sizeof(uint32_t) : 1>, Pack<T, N>>;
  Type pack;

  __device__ void read(const T* from) { pack = vector_at<Type>(from); }
  __device__ void unpack_to(float (&to)[N]) const {
    Pack<T, N> numbers;
    memcpy(&numbers, &pack, sizeof(pack));
    unpack(numbers, to);
  }
};

// A block takes every gridDim.x-th row. Its part of dweight and dbias, and the weight, stay in registers: a
// thread has one vector of each row. It reads the next row before it waits for the sums of this one.
template <class T, int N>
__global__ void __launch_bounds__(kMostThreads, 2)
    backward_once_kernel(int64_t rows, int64_t channels, const T* x, const T* weight, const float* mean,
                         const float* scale, const T* dy, const T* residual, T* dx, float* partial) {
  const int64_t c = N * static_cast<int64_t>(threadIdx.x);
  const bool has_vector = c < channels;
  const int64_t read_at = has_vector ? c : 0;  // others read what they multiply by 0, without a branch
  const float inverse = 1 / static_cast<float>(channels);
  float of_weight[N] = {}, of_bias[N] = {};
  Waiting<T, N> of_w = {}, next_x, next_dy;
  if (has_vector) of_w.read(weight + c);
  int64_t row = blockIdx.x;
  next_x.read(x + row * channels + read_at);
  next_dy.read(dy + row * channels + read_at);
  float next_middle = mean[row], next_factor = scale[row];
  for (; row < rows; row += gridDim.x) {
    const float middle = next_middle, factor = next_factor;
    float value[N], up[N], w[N];
    of_w.unpack_to(w);
    next_x.unpack_to(value);
    next_dy.unpack_to(up);
    const int64_t next = row + gridDim.x < rows ? row + gridDim.x : row;
    next_x.read(x + next * channels + read_at);
    next_dy.read(dy + next * channels + read_at);
    next_middle = mean[next];
    next_factor = scale[next];
    TwoSums sums = {};
#pragma unroll
    for (int k = 0; k < N; ++k) {
      value[k] = (value[k] - middle) * factor;
      of_weight[k] += up[k] * value[k];
      of_bias[k] += up[k];
      up[k] *= w[k];
      sums.first += up[k];
      sums.second += up[k] * value[k];
    }
    sums = block_sum(sums);
    sums = {sums.first * inverse, sums.second * inverse};
    if (!has_vector) continue;
#pragma unroll
    for (int k = 0; k < N; ++k) value[k] = factor * (up[k] - sums.first - value[k] * sums.second);
    if (residual != nullptr) {
      load(residual + row * channels + c, up);
#pragma unroll
      for (int k = 0; k < N; ++k) value[k] += up[k];
    }
    store(value, dx + row * channels + c);
  }
  if (partial == nullptr || !has_vector) return;
  store(of_weight, partial + blockIdx.x * channels + c);
  store(of_bias, partial + (int64_t{gridDim.x} + blockIdx.x) * channels + c);
}

// Stores the block's part of dweight and dbias, of which each thread has its own channels in shared memory.
template <int N>
__device__ void store_parts(const float* of_weight, const float* of_bias, int64_t channels, float* partial) {
  const int threads = static_cast<int>(blockDim.x);
  int at = 0;
  for (int64_t c = N * static_cast<int64_t>(threadIdx.x); c < channels; c += int64_t{N} * threads) {
    float weights[N], biases[N];
    for (int k = 0; k < N; ++k, at += threads) {
      weights[k] = of_weight[at];
      biases[k] = of_bias[at];
    }
    store(weights, partial + blockIdx.x * channels + c);
    store(biases, partial + (int64_t{gridDim.x} + blockIdx.x) * channels + c);
  }
}

// The same for longer rows. They are read twice, and the block's part of dweight and dbias is in shared
// memory, `room` floats of each, where each thread has its own channels, those of one lane beside those of
// the next.
template <class T, int N>
__global__ void __launch_bounds__(kMostThreads)
    backward_kernel(int64_t rows, int64_t channels, int64_t room, const T* x, const T* weight,
                    const float* mean, const float* scale, const T* dy, const T* residual, T* dx,
                    float* partial) {
  WEFT_DYNAMIC_SHARED(float, shared);
  float* const of_weight = shared + threadIdx.x;
  float* const of_bias = of_weight + room;
  const int64_t begin = N * static_cast<int64_t>(threadIdx.x), stride = N * static_cast<int64_t>(blockDim.x);
  const int threads = static_cast<int>(blockDim.x);
  const float count = static_cast<float>(channels);
  if (partial != nullptr) {
    int at = 0;
    for (int64_t c = begin; c < channels; c += stride)
      for (int k = 0; k < N; ++k, at += threads) of_weight[at] = of_bias[at] = 0;
  }
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const of_x = x + row * channels;
    const T* const of_dy = dy + row * channels;
    const float middle = mean[row], factor = scale[row];
    float value[N], w[N], up[N];
    TwoSums sums = {};
    int at = 0;
    for (int64_t c = begin; c < channels; c += stride) {
      load(of_x + c, value);
      load(weight + c, w);
      load(of_dy + c, up);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        value[k] = (value[k] - middle) * factor;
        sums.first += up[k] * w[k];
        sums.second += up[k] * w[k] * value[k];
      }
      if (partial != nullptr) {
#pragma unroll
        for (int k = 0; k < N; ++k, at += threads) {
          of_weight[at] += up[k] * value[k];
          of_bias[at] += up[k];
        }
      }
    }
    sums = block_sum(sums);
    sums = {sums.first / count, sums.second / count};
    for (int64_t c = begin; c < channels; c += stride) {
      load(of_x + c, value);
      load(weight + c, w);
      load(of_dy + c, up);
#pragma unroll
      for (int k = 0; k < N; ++k)
        value[k] = factor * (up[k] * w[k] - sums.first - (value[k] - middle) * factor * sums.second);
      if (residual != nullptr) {
        load(residual + row * channels + c, up);
#pragma unroll
        for (int k = 0; k < N; ++k) value[k] += up[k];
      }
      store(value, dx + row * channels + c);
    }
  }
  if (partial != nullptr) store_parts<N>(of_weight, of_bias, channels, partial);
}

bool once(int64_t channels, int threads, int vector) {
  return channels <= int64_t{threads} * vector;
}

template <class T, int N>
void run_forward(int64_t rows, int64_t channels, float epsilon, const T* x, const T* weight, const T* bias,
                 T* y, float* mean, float* scale, Stream stream) {
  const int threads = threads_of(channels, N);
  launch(once(channels, threads, N) ? forward_kernel<T, N, true> : forward_kernel<T, N, false>,
         grid_of(rows, "rows"), threads, 0, stream, channels, epsilon, x, weight, bias, y, mean, scale);
}

template <class T, int N>
void run_backward(int64_t rows, int64_t channels, const T* x, const T* weight, const float* mean,
                  const float* scale, const T* dy, const T* residual, T* dx, float* partial, Stream stream) {
  const int threads = threads_of(channels, N);
  const int64_t blocks = layer_norm_parts(rows);
  if (once(channels, threads, N))
    return launch(backward_once_kernel<T, N>, blocks, threads, 0, stream, rows, channels, x, weight, mean,
                  scale, dy, residual, dx, partial);
  const int64_t room = partial != nullptr ? room_of_row(channels, threads, N) : 0;
  launch(backward_kernel<T, N>, blocks, threads, bytes_of_sums("layer_norm_backward", channels, 2 * room),
         stream, rows, channels, room, x, weight, mean, scale, dy, residual, dx, partial);
}

}  // namespace

template <class T>
void layer_norm_forward(int64_t rows, int64_t channels, float epsilon, const T* x, const T* weight,
                        const T* bias, T* y, float* mean, float* scale, Stream stream) {
  if (rows == 0 || channels == 0) return;
  constexpr int kN = kVector<T>;
  if (channels % kN == 0 && aligned<kN>(x) && aligned<kN>(weight) && aligned<kN>(bias) && aligned<kN>(y))
    run_forward<T, kN>(rows, channels, epsilon, x, weight, bias, y, mean, scale, stream);
  else
    run_forward<T, 1>(rows, channels, epsilon, x, weight, bias, y, mean, scale, stream);
}

int64_t layer_norm_parts(int64_t rows) {
  const int64_t wanted = rows / kRowsOfAPart;
  const int64_t parts = wanted < kManyParts ? kManyParts : wanted < kMostParts ? wanted : kMostParts;
  return rows < parts ? rows : parts;
}

template <class T>
void layer_norm_backward(int64_t rows, int64_t channels, const T* x, const T* weight, const float* mean,
                         const float* scale, const T* dy, const T* residual, T* dx, float* partial,
                         T* dweight, T* dbias, Stream stream) {
  if (channels == 0) return;
  if ((partial == nullptr) != (dweight == nullptr) || (partial == nullptr) != (dbias == nullptr))
    throw std::invalid_argument(
        "layer_norm_backward: partial, dweight and dbias must all be given or all be null");
  if (rows > 0) {
    constexpr int kN = kVector<T>;
    if (channels % kN == 0 && aligned<kN>(x) && aligned<kN>(weight) && aligned<kN>(dy) && aligned<kN>(dx) &&
        aligned<kN>(residual) && aligned<kN>(partial))
      run_backward<T, kN>(rows, channels, x, weight, mean, scale, dy, residual, dx, partial, stream);
    else
      run_backward<T, 1>(rows, channels, x, weight, mean, scale, dy, residual, dx, partial, stream);
  }
  if (partial == nullptr) return;
  sum_columns(layer_norm_parts(rows), channels, partial, dweight, dbias, stream);
}

#define WEFT_INSTANTIATE(T)                                                                           \
  template void layer_norm_forward(int64_t, int64_t, float, const T*, const T*, const T*, T*, float*, \
                                   float*, Stream);                                                   \
  template void layer_norm_backward(int64_t, int64_t, const T*, const T*, const float*, const float*, \
                                    const T*, const T*, T*, float*, T*, T*, Stream);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(c10::BFloat16)
WEFT_INSTANTIATE(c10::Half)

}  // namespace weft::kernels::cuda
