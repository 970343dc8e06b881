#include "cuda/gelu.hpp"

#include "cuda/strips.cuh"

namespace weft::kernels::cuda {

namespace {

template <Gelu kKind, class T, int N>
struct Gradient {
  static constexpr int kRowsAtOnce = 1;
  const T* x;
  const T* dy;
  T* dx;
  __device__ void operator()(int64_t at, float (&value)[N]) const {
    float from[N];
    load(x + at, value);
    load(dy + at, from);
#pragma unroll
    for (int k = 0; k < N; ++k) value[k] = gelu_gradient<kKind>(value[k], from[k]);
    store(value, dx + at);
  }
};

template <Gelu kKind, class T>
void run(int64_t rows, int64_t channels, const T* x, const T* dy, T* dx, float* partial, T* sums,
         Stream stream) {
  constexpr int kN = kVector<T>;
  if (channels % kN == 0 && aligned<kN>(x) && aligned<kN>(dy) && aligned<kN>(dx))
    sum_strips<T, kN>(rows, channels, Gradient<kKind, T, kN>{x, dy, dx}, partial, sums, stream);
  else
    sum_strips<T, 1>(rows, channels, Gradient<kKind, T, 1>{x, dy, dx}, partial, sums, stream);
}

}  // namespace

template <class T>
void gelu_backward(Gelu kind, int64_t rows, int64_t channels, const T* x, const T* dy, T* dx, float* partial,
                   T* sums, Stream stream) {
  if (channels == 0) return;
  if (kind == Gelu::kErf)
    run<Gelu::kErf>(rows, channels, x, dy, dx, partial, sums, stream);
  else
    run<Gelu::kTanh>(rows, channels, x, dy, dx, partial, sums, stream);
}

#define WEFT_INSTANTIATE(T) \
  template void gelu_backward(Gelu, int64_t, int64_t, const T*, const T*, T*, float*, T*, Stream);
WEFT_INSTANTIATE(float)
WEFT_INSTANTIATE(c10::BFloat16)
WEFT_INSTANTIATE(c10::Half)

}  // namespace weft::kernels::cuda
