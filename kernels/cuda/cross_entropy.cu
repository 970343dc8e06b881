#include "cuda/cross_entropy.hpp"

#include "cuda/reduce.cuh"
#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

namespace {

// kThreadsAtOnce: a multiprocessor runs two such blocks, whose rows are still in the L2 cache
// when they are read again.
constexpr int kThreads = 256, kThreadsAtOnce = 512, kThreadsOfSum = 1024;
constexpr int64_t kMostBlocksOfRescale = 1024;

__device__ bool has_label(const CrossEntropyRows& shape, int64_t label) {
  return label >= 0 && label < shape.classes;
}
__device__ bool counts(const CrossEntropyRows& shape, int64_t label) {
  return has_label(shape, label) || label == kElsewhere;
}

// exp of x <= 0 in two instructions. Its relative error grows by 7e-8 |x|, where the result is small.
__device__ float fast_exp(float x) {
#ifdef __CUDA_ARCH__
  return __expf(x);
#else
  return expf(x);
#endif
}

// How many vectors a thread reads before it uses the first.
constexpr int kAhead = 4;

// Calls single(i) or vectors.operator()<N>(i) so that the kBlock threads of a block visit each element of a
// row once: the latter stands for N vectors, kBlock vectors apart, the first at i. Vectors begin where `row`
// + i is aligned for them.
template <int kBlock, class T, class Single, class Vectors>
__device__ void for_row(const T* row, int64_t count, const Single& single, const Vectors& vectors) {
  constexpr int kElements = kVector<T>, kStride = kElements * kBlock;
  const int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
  int64_t head = past == 0 ? 0 : kElements - past;
  if (head > count) head = count;
  const int64_t end = head + (count - head) / kElements * kElements;
#pragma unroll 1
  for (int64_t i = threadIdx.x; i < head; i += kBlock) single(i);
  int64_t i = head + kElements * static_cast<int64_t>(threadIdx.x);
#pragma unroll 1
  for (; i + (kAhead - 1) * kStride < end; i += kAhead * kStride) vectors.template operator()<kAhead>(i);
#pragma unroll 1
  for (; i < end; i += kStride) vectors.template operator()<1>(i);
#pragma unroll 1
  for (int64_t last = end + threadIdx.x; last < count; last += kBlock) single(last);
}

// N vectors of a row, kBlock vectors apart, that wait in registers as they are in memory.
template <int kBlock, int N, class T>
struct Vectors {
  using Packed = Pack<T, kVector<T>>;
  Packed packed[N];

  __device__ explicit Vectors(const T* from) {
#pragma unroll
    for (int v = 0; v < N; ++v) packed[v] = vector_at<Packed>(from + v * kVector<T> * kBlock);
  }
};

// What exp of a row adds up to; every thread gets it.
template <int kBlock, class T>
__device__ ScaledSum sum_of_row(const T* row, int64_t classes) {
  ScaledSum mine = {-INFINITY, 0};
  for_row<kBlock>(
      row, classes,
      [&](int64_t i) {
        mine = merged(mine, {static_cast<float>(row[i]), 1});
      },
      [&]<int N>(int64_t i) {
        const Vectors<kBlock, N, T> read(row + i);
        float x[kVector<T>], peak = mine.peak;
#pragma unroll
        for (int v = 0; v < N; ++v) {
          unpack(read.packed[v], x);
#pragma unroll
          for (int k = 0; k < kVector<T>; ++k) peak = larger(peak, x[k]);
        }
        if (peak == -INFINITY) return;
        float sum = mine.sum * expf(mine.peak - peak);
#pragma unroll
        for (int v = 0; v < N; ++v) {
          unpack(read.packed[v], x);
#pragma unroll
          for (int k = 0; k < kVector<T>; ++k) sum += fast_exp(x[k] - peak);
        }
        mine = {peak, sum};
      });
  return block_reduce(mine, ScaledSum{-INFINITY, 0},
                      [](ScaledSum one, ScaledSum other) { return merged(one, other); });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const CrossEntropyRows shape, const SpacedRows<const T> logits,
                   RowNormaliser<float>* normalisers, float* losses) {
  const int64_t row = blockIdx.x, label = shape.labels[row];
  const T* const of_row = logits.first + row * logits.stride;
  if (!counts(shape, label)) {  // the same for the whole block, so no barrier is missed
    if (threadIdx.x == 0) {
      normalisers[row] = {0, 0};
      losses[row] = 0;
    }
    return;
  }
  const ScaledSum all = sum_of_row<kThreads>(of_row, shape.classes);
  if (threadIdx.x != 0) return;
  const float log_sum = logf(all.sum);
  normalisers[row] = {all.peak, log_sum};
  losses[row] = (has_label(shape, label) ? all.peak - static_cast<float>(of_row[label]) : all.peak) + log_sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    parts_kernel(const CrossEntropyRows shape, const SpacedRows<const T> logits, float* peaks, float* sums) {
  const int64_t row = blockIdx.x, label = shape.labels[row];
  const T* const of_row = logits.first + row * logits.stride;
  ScaledSum all = {-INFINITY, 0};
  if (counts(shape, label)) all = sum_of_row<kThreads>(of_row, shape.classes);
  if (threadIdx.x != 0) return;
  peaks[row] = all.peak;
  sums[row] = all.sum;
  sums[shape.rows + row] = has_label(shape, label) ? static_cast<float>(of_row[label]) : 0.0f;
}

__global__ void __launch_bounds__(kThreads)
    rebase_kernel(const CrossEntropyRows shape, const float* peaks, const float* all, float* sums) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= shape.rows || !counts(shape, shape.labels[row])) return;
  sums[row] = peaks[row] == -INFINITY ? 0 : sums[row] * expf(peaks[row] - all[row]);
  if (has_label(shape, shape.labels[row])) sums[shape.rows + row] -= all[row];
}

__global__ void __launch_bounds__(kThreads)
    finish_kernel(const CrossEntropyRows shape, const float* all, const float* sums,
                  RowNormaliser<float>* normalisers, float* losses) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row >= shape.rows) return;
  const bool used = counts(shape, shape.labels[row]);
  const float log_sum = used ? logf(sums[row]) : 0;
  normalisers[row] = {used ? all[row] : 0, log_sum};
  losses[row] = used ? log_sum - sums[shape.rows + row] : 0;
}

// The gradient of a row that counts. `to` may be `from`.
template <int kBlock, class T>
__device__ void write_gradient(const CrossEntropyRows& shape, int64_t label,
                               const RowNormaliser<float>& normaliser, float scale, const T* from, T* to) {
  constexpr int kElements = kVector<T>;
  const auto probability = [&](float x) { return fast_exp(x - normaliser.peak - normaliser.log_sum); };
  const auto single = [&](int64_t i) {
    const float p = probability(static_cast<float>(from[i]));
    to[i] = static_cast<T>(scale * (i == label ? p - 1 : p));
  };
  // A gradient that is shifted against the logits has vectors elsewhere.
  if (reinterpret_cast<uintptr_t>(from) % 16 != reinterpret_cast<uintptr_t>(to) % 16) {
    for (int64_t i = threadIdx.x; i < shape.classes; i += kBlock) single(i);
    return;
  }
  for_row<kBlock>(from, shape.classes, single, [&]<int N>(int64_t i) {
    const Vectors<kBlock, N, T> read(from + i);
#pragma unroll
    for (int v = 0; v < N; ++v, i += kElements * kBlock) {
      float x[kElements];
      unpack(read.packed[v], x);
#pragma unroll
      for (int k = 0; k < kElements; ++k) x[k] = probability(x[k]);
      // One comparison for a vector: hardly any has the label.
      if (label >= i && label < i + kElements) {
        const int of_label = static_cast<int>(label - i);
#pragma unroll
        for (int k = 0; k < kElements; ++k) x[k] = k == of_label ? x[k] - 1 : x[k];
      }
#pragma unroll
      for (int k = 0; k < kElements; ++k) x[k] = scale * x[k];
      store(x, to + i);
    }
  });
}

// The gradient of a row that counts nothing.
template <int kBlock, class T>
__device__ void write_zeros(int64_t classes, T* to) {
  for_row<kBlock>(
      to, classes, [&](int64_t i) { to[i] = static_cast<T>(0.0f); },
      [&]<int N>(int64_t i) {
        const float zeros[kVector<T>] = {};
#pragma unroll
        for (int v = 0; v < N; ++v) store(zeros, to + i + v * kVector<T> * kBlock);
      });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const CrossEntropyRows shape, const SpacedRows<const T> logits,
                    const RowNormaliser<float>* normalisers, const float* scale,
                    const SpacedRows<T> gradient) {
  const int64_t row = blockIdx.x, label = shape.labels[row];
  T* const to = gradient.first + row * gradient.stride;
  if (counts(shape, label))
    write_gradient<kThreads>(shape, label, normalisers[row], *scale, logits.first + row * logits.stride, to);
  else
    write_zeros<kThreads>(shape.classes, to);
}

template <class T>
__global__ void __launch_bounds__(kThreadsAtOnce)
    at_once_kernel(const CrossEntropyRows shape, const SpacedRows<T> logits, float scale, float* losses) {
  const int64_t row = blockIdx.x, label = shape.labels[row];
  T* const of_row = logits.first + row * logits.stride;
  if (!counts(shape, label)) {  // the same for the whole block, so no barrier is missed
    write_zeros<kThreadsAtOnce>(shape.classes, of_row);
    if (threadIdx.x == 0) losses[row] = 0;
    return;
  }
  // Before the barriers of the sum, behind which it is overwritten.
  const float of_label = has_label(shape, label) ? static_cast<float>(of_row[label]) : 0.0f;
  const ScaledSum all = sum_of_row<kThreadsAtOnce>(of_row, shape.classes);
  const RowNormaliser<float> normaliser = {all.peak, logf(all.sum)};
  if (threadIdx.x == 0) losses[row] = all.peak - of_label + normaliser.log_sum;
  write_gradient<kThreadsAtOnce>(shape, label, normaliser, scale, of_row, of_row);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    rescale_kernel(int64_t rows, int64_t count, const SpacedRows<T> x, const float* actual, float expected) {
  const float factor = *actual / expected;
  if (*actual == expected) return;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T* const of_row = x.first + row * x.stride;
    for_row<kThreads>(
        of_row, count, [&](int64_t i) { of_row[i] = static_cast<T>(static_cast<float>(of_row[i]) * factor); },
        [&]<int N>(int64_t i) {
#pragma unroll
          for (int v = 0; v < N; ++v, i += kVector<T> * kThreads) {
            float value[kVector<T>];
            load(of_row + i, value);
#pragma unroll
            for (int k = 0; k < kVector<T>; ++k) value[k] *= factor;
            store(value, of_row + i);
          }
        });
  }
}

__global__ void __launch_bounds__(kThreadsOfSum) sum_kernel(int64_t rows, const float* losses, float* sum) {
  double mine = 0;
  for (int64_t row = threadIdx.x; row < rows; row += kThreadsOfSum) mine += static_cast<double>(losses[row]);
  mine = block_sum(mine);
  if (threadIdx.x == 0) *sum = static_cast<float>(mine);
}

int64_t blocks_of(int64_t rows) {
  return grid_of((rows + kThreads - 1) / kThreads, "blocks of rows");
}

}  // namespace

template <class T>
void cross_entropy_forward(const CrossEntropyRows& shape, SpacedRows<const T> logits,
                           RowNormaliser<float>* normalisers, float* losses, Stream stream) {
  if (shape.rows == 0) return;
  launch(forward_kernel<T>, grid_of(shape.rows, "rows of logits"), kThreads, 0, stream, shape, logits,
         normalisers, losses);
}

void sum_losses(int64_t rows, const float* losses, float* sum, Stream stream) {
  launch(sum_kernel, 1, kThreadsOfSum, 0, stream, rows, losses, sum);
}

template <class T>
void cross_entropy_backward(const CrossEntropyRows& shape, SpacedRows<const T> logits,
                            const RowNormaliser<float>* normalisers, const float* scale,
                            SpacedRows<T> gradient, Stream stream) {
  if (shape.rows == 0 || shape.classes == 0) return;
  launch(backward_kernel<T>, grid_of(shape.rows, "rows of logits"), kThreads, 0, stream, shape, logits,
         normalisers, scale, gradient);
}

template <class T>
void cross_entropy_with_gradient(const CrossEntropyRows& shape, SpacedRows<T> logits, float scale,
                                 float* losses, Stream stream) {
  if (shape.rows == 0) return;
  launch(at_once_kernel<T>, grid_of(shape.rows, "rows of logits"), kThreadsAtOnce, 0, stream, shape, logits,
         scale, losses);
}

template <class T>
void rescale(int64_t rows, int64_t count, SpacedRows<T> x, const float* actual, float expected,
             Stream stream) {
  if (rows == 0 || count == 0) return;
  launch(rescale_kernel<T>, rows < kMostBlocksOfRescale ? rows : kMostBlocksOfRescale, kThreads, 0, stream,
         rows, count, x, actual, expected);
}

template <class T>
void cross_entropy_parts(const CrossEntropyRows& shape, SpacedRows<const T> logits, float* peaks, float* sums,
                         Stream stream) {
  if (shape.rows == 0) return;
  launch(parts_kernel<T>, grid_of(shape.rows, "rows of logits"), kThreads, 0, stream, shape, logits, peaks,
         sums);
}

void cross_entropy_rebase(const CrossEntropyRows& shape, const float* peaks, const float* all, float* sums,
                          Stream stream) {
  if (shape.rows == 0) return;
  launch(rebase_kernel, blocks_of(shape.rows), kThreads, 0, stream, shape, peaks, all, sums);
}

void cross_entropy_finish(const CrossEntropyRows& shape, const float* all, const float* sums,
                          RowNormaliser<float>* normalisers, float* losses, Stream stream) {
  if (shape.rows == 0) return;
  launch(finish_kernel, blocks_of(shape.rows), kThreads, 0, stream, shape, all, sums, normalisers, losses);
}

#define WEFT_INSTANTIATE(T)                                                                                 \
  template void cross_entropy_forward(const CrossEntropyRows&, SpacedRows<const T>, RowNormaliser<float>*,  \
                                      float*, Stream);                                                      \
  template void cross_entropy_backward(const CrossEntropyRows&, SpacedRows<const T>,                        \
                                       const RowNormaliser<float>*, const float*, SpacedRows<T>, Stream);   \
  template void cross_entropy_with_gradient(const CrossEntropyRows&, SpacedRows<T>, float, float*, Stream); \
  template void rescale(int64_t, int64_t, SpacedRows<T>, const float*, float, Stream);                      \
  template void cross_entropy_parts(const CrossEntropyRows&, SpacedRows<const T>, float*, float*, Stream);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(c10::BFloat16)
WEFT_INSTANTIATE(c10::Half)

}  // namespace weft::kernels::cuda
