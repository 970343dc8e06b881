#include "cuda/gated.hpp"

#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

namespace {

constexpr int kThreads = 256;

template <Gate kKind, int N, class T>
__device__ void forward_of(const T* gate, const T* up, T* y) {
  float a[N], b[N];
  load(gate, a);
  load(up, b);
#pragma unroll
  for (int k = 0; k < N; ++k) a[k] = gated_product<kKind>(a[k], b[k]);
  store(a, y);
}

template <Gate kKind, int N, class T>
__device__ void backward_of(const T* gate, const T* up, const T* dy, T* dgate, T* dup) {
  float a[N], b[N], from[N];
  load(gate, a);
  load(up, b);
  load(dy, from);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const GatedSlopes slopes = gated_slopes<kKind>(a[k], b[k], from[k]);
    a[k] = slopes.gate;
    b[k] = slopes.up;
  }
  store(a, dgate);
  store(b, dup);
}

// A thread has one vector; the last one has single elements if they are fewer.
template <Gate kKind, class T, int N>
__global__ void __launch_bounds__(kThreads) forward_kernel(int64_t count, const T* gate, const T* up, T* y) {
  int64_t i = N * (int64_t{blockIdx.x} * kThreads + threadIdx.x);
  if (i + N <= count) return forward_of<kKind, N>(gate + i, up + i, y + i);
#pragma unroll 1
  for (; i < count; ++i) forward_of<kKind, 1>(gate + i, up + i, y + i);
}

template <Gate kKind, class T, int N>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(int64_t count, const T* gate, const T* up, const T* dy, T* dgate, T* dup) {
  int64_t i = N * (int64_t{blockIdx.x} * kThreads + threadIdx.x);
  if (i + N <= count) return backward_of<kKind, N>(gate + i, up + i, dy + i, dgate + i, dup + i);
#pragma unroll 1
  for (; i < count; ++i) backward_of<kKind, 1>(gate + i, up + i, dy + i, dgate + i, dup + i);
}

int64_t blocks_of(int64_t count, int vector) {
  const int64_t of_a_block = int64_t{kThreads} * vector;
  return grid_of((count + of_a_block - 1) / of_a_block, "blocks of values");
}

template <class T, int N>
void run_forward(Gate kind, int64_t count, const T* gate, const T* up, T* y, Stream stream) {
  launch(kind == Gate::kSilu ? forward_kernel<Gate::kSilu, T, N> : forward_kernel<Gate::kGeluTanh, T, N>,
         blocks_of(count, N), kThreads, 0, stream, count, gate, up, y);
}

template <class T, int N>
void run_backward(Gate kind, int64_t count, const T* gate, const T* up, const T* dy, T* dgate, T* dup,
                  Stream stream) {
  launch(kind == Gate::kSilu ? backward_kernel<Gate::kSilu, T, N> : backward_kernel<Gate::kGeluTanh, T, N>,
         blocks_of(count, N), kThreads, 0, stream, count, gate, up, dy, dgate, dup);
}

}  // namespace

template <class T>
void gated_forward(Gate kind, int64_t count, const T* gate, const T* up, T* y, Stream stream) {
  if (count == 0) return;
  constexpr int kN = kVector<T>;
  if (aligned<kN>(gate) && aligned<kN>(up) && aligned<kN>(y))
    run_forward<T, kN>(kind, count, gate, up, y, stream);
  else
    run_forward<T, 1>(kind, count, gate, up, y, stream);
}

template <class T>
void gated_backward(Gate kind, int64_t count, const T* gate, const T* up, const T* dy, T* dgate, T* dup,
                    Stream stream) {
  if (count == 0) return;
  constexpr int kN = kVector<T>;
  if (aligned<kN>(gate) && aligned<kN>(up) && aligned<kN>(dy) && aligned<kN>(dgate) && aligned<kN>(dup))
    run_backward<T, kN>(kind, count, gate, up, dy, dgate, dup, stream);
  else
    run_backward<T, 1>(kind, count, gate, up, dy, dgate, dup, stream);
}

#define WEFT_INSTANTIATE(T)                                                   \
  template void gated_forward(Gate, int64_t, const T*, const T*, T*, Stream); \
  template void gated_backward(Gate, int64_t, const T*, const T*, const T*, T*, T*, Stream);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(c10::BFloat16)
WEFT_INSTANTIATE(c10::Half)

}  // namespace weft::kernels::cuda
