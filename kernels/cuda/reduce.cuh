// Sums over a warp and over a block. Every thread gets the same bits, in each run.
#pragma once

#include "cuda/device.cuh"
#include "formula/log_sum_exp.hpp"

namespace weft::kernels::cuda {

constexpr uint32_t kWholeWarp = 0xFFFFFFFF;

// What the lane has whose number differs in the bits of `bits`.
template <class T>
__device__ T partner(T value, int bits) {
  return __shfl_xor_sync(kWholeWarp, value, bits);
}
inline __device__ ScaledSum partner(ScaledSum value, int bits) {
  return {partner(value.peak, bits), partner(value.sum, bits)};
}

// `combine` is commutative.
template <class T, class Combine>
__device__ T warp_reduce(T value, const Combine& combine) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value = combine(value, partner(value, lanes));
  return value;
}

// For blocks of whole warps. `none` is what no thread contributes.
template <class T, class Combine>
__device__ T block_reduce(T value, T none, const Combine& combine) {
  __shared__ T of_warp[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = warp_reduce(value, combine);
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? of_warp[lane] : none, combine);
  __syncthreads();  // of_warp may be written again
  return value;
}

struct Plus {
  template <class T>
  __device__ T operator()(T one, T other) const {
    return one + other;
  }
};

template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, T{}, Plus{});
}

// Two sums for the barriers of one.
struct TwoSums {
  float first, second;
};
inline __device__ TwoSums operator+(TwoSums one, TwoSums other) {
  return {one.first + other.first, one.second + other.second};
}
inline __device__ TwoSums partner(TwoSums value, int bits) {
  return {partner(value.first, bits), partner(value.second, bits)};
}

}  // namespace weft::kernels::cuda
