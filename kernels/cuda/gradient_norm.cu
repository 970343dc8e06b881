#include "cuda/gradient_norm.hpp"

#include "cuda/reduce.cuh"
#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

namespace {

constexpr int kThreads = 256, kThreadsOfTotal = 1024;

// The squares of fp32 numbers overflow in fp32, so everything is added in double.
struct Term {
  NormType type;
  __device__ double operator()(float x) const {
    const double value = static_cast<double>(x);
    return type == NormType::kTwo ? value * value : value < 0 ? -value : value;
  }
};
struct Combine {
  NormType type;
  __device__ double operator()(double one, double other) const {
    return type == NormType::kInfinity ? larger(one, other) : one + other;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    parts_kernel(NormType type, const T* const* ranges, const Chunk* chunks, double* parts) {
  constexpr int kElements = kVector<T>;
  const Term term{type};
  const Combine combine{type};
  const Chunk chunk = chunks[blockIdx.x];
  const T* const gradient = ranges[chunk.range] + chunk.begin;
  const int32_t whole = aligned<kElements>(gradient) ? chunk.count / kElements * kElements : 0;
  double sums[kElements] = {};  // as many chains of additions, which do not wait for each other
  for (int32_t i = kElements * static_cast<int32_t>(threadIdx.x); i < whole; i += kElements * kThreads) {
    float x[kElements];
    load(gradient + i, x);
#pragma unroll
    for (int k = 0; k < kElements; ++k) sums[k] = combine(sums[k], term(x[k]));
  }
  for (int32_t i = whole + static_cast<int32_t>(threadIdx.x); i < chunk.count; i += kThreads)
    sums[0] = combine(sums[0], term(static_cast<float>(gradient[i])));
  double mine = sums[0];
#pragma unroll
  for (int k = 1; k < kElements; ++k) mine = combine(mine, sums[k]);
  mine = block_reduce(mine, 0.0, combine);
  if (threadIdx.x == 0) parts[blockIdx.x] = mine;
}

__global__ void __launch_bounds__(kThreadsOfTotal)
    total_kernel(NormType type, const double* parts, int64_t num_parts, double* total) {
  const Combine combine{type};
  double mine = 0;
  for (int64_t i = threadIdx.x; i < num_parts; i += kThreadsOfTotal) mine = combine(mine, parts[i]);
  mine = block_reduce(mine, 0.0, combine);
  if (threadIdx.x == 0) *total = mine - mine == 0 ? mine : static_cast<double>(INFINITY);
}

}  // namespace

template <class T>
void norm_parts(NormType type, const T* const* ranges, const Chunk* chunks, int64_t num_chunks, double* parts,
                Stream stream) {
  if (num_chunks == 0) return;
  launch(parts_kernel<T>, grid_of(num_chunks, "chunks"), kThreads, 0, stream, type, ranges, chunks, parts);
}

void norm_total(NormType type, const double* parts, int64_t num_parts, double* total, Stream stream) {
  launch(total_kernel, 1, kThreadsOfTotal, 0, stream, type, parts, num_parts, total);
}

template void norm_parts(NormType, const float* const*, const Chunk*, int64_t, double*, Stream);
template void norm_parts(NormType, const c10::BFloat16* const*, const Chunk*, int64_t, double*, Stream);
template void norm_parts(NormType, const c10::Half* const*, const Chunk*, int64_t, double*, Stream);

}  // namespace weft::kernels::cuda
