// Several numbers at a time between memory, of type T, and registers, in fp32. A kernel decides once whether
// it reads vectors or, since memory may begin anywhere, single numbers, which neighbouring threads read
// together.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "cuda/device.cuh"
#include "formula/formula.hpp"

namespace weft::kernels::cuda {

// As many T as one load of 16 bytes takes.
template <class T>
constexpr int kVector = 16 / static_cast<int>(sizeof(T));

template <class T, int N>
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Pack {
  T values[N];
};

// True if vectors of N can be loaded and stored at `address`. Null is aligned.
template <int N, class T>
WEFT_FORMULA bool aligned(const T* address) {
  return reinterpret_cast<uintptr_t>(address) % alignof(Pack<T, N>) == 0;
}

template <class T, int N>
__device__ void unpack(const Pack<T, N>& from, float (&to)[N]) {
#pragma unroll
  for (int k = 0; k < N; ++k) to[k] = static_cast<float>(from.values[k]);
}
// N numbers from address `from`, which is aligned for a Pack<T, N>.
template <class T, int N>
__device__ void load(const T* from, float (&to)[N]) {
  unpack(vector_at<Pack<T, N>>(from), to);
}
template <class T, int N>
__device__ void store(const float (&from)[N], T* to) {
  Pack<T, N> pack;
#pragma unroll
  for (int k = 0; k < N; ++k) pack.values[k] = static_cast<T>(from[k]);
  set_vector_at(to, pack);
}

}  // namespace weft::kernels::cuda
