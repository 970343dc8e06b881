#include "cuda/rotary.hpp"

#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

namespace {

constexpr int kThreads = 256;

// A thread has a vector of both halves of a head, or one of the channels that do not turn. The heads of a
// position read its tables from the first cache.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    rotate_kernel(const RotaryShape shape, int64_t vectors, const T* x, const T* cosine, const T* sine,
                  float sign, T* y) {
  const int64_t vector = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (vector >= vectors) return;
  const int64_t half = shape.half(), of_a_head = (half + shape.still) / N, head = vector / of_a_head;
  const int64_t i = N * (vector - head * of_a_head), at = head * shape.size + i;
  float a[N], b[N], c[N], s[N];
  if (i >= half) {
    load(x + at + half, a);
    store(a, y + at + half);
    return;
  }
  load(x + at, a);
  load(x + at + half, b);
  const int64_t position = head / shape.heads;
  const int64_t row = (shape.table_for_all ? position % shape.positions : position) * half + i;
  load(cosine + row, c);
  load(sine + row, s);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float first = a[k], turn = sign * s[k];
    a[k] = first * c[k] - b[k] * turn;
    b[k] = b[k] * c[k] + first * turn;
  }
  store(a, y + at);
  store(b, y + at + half);
}

template <class T, int N>
void run(const RotaryShape& shape, const T* x, const T* cosine, const T* sine, bool back, T* y,
         Stream stream) {
  const int64_t vectors = shape.batch * shape.positions * shape.heads * ((shape.half() + shape.still) / N);
  if (vectors == 0) return;
  launch(rotate_kernel<T, N>, grid_of((vectors + kThreads - 1) / kThreads, "blocks of vectors"), kThreads, 0,
         stream, shape, vectors, x, cosine, sine, back ? -1.0f : 1.0f, y);
}

}  // namespace

template <class T>
void rotate(const RotaryShape& shape, const T* x, const T* cosine, const T* sine, bool back, T* y,
            Stream stream) {
  constexpr int kN = kVector<T>;
  if (shape.half() % kN == 0 && shape.still % kN == 0 && aligned<kN>(x) && aligned<kN>(cosine) &&
      aligned<kN>(sine) && aligned<kN>(y))
    run<T, kN>(shape, x, cosine, sine, back, y, stream);
  else
    run<T, 1>(shape, x, cosine, sine, back, y, stream);
}
template void rotate(const RotaryShape&, const float*, const float*, const float*, bool, float*, Stream);
template void rotate(const RotaryShape&, const c10::BFloat16*, const c10::BFloat16*, const c10::BFloat16*,
                     bool, c10::BFloat16*, Stream);
template void rotate(const RotaryShape&, const c10::Half*, const c10::Half*, const c10::Half*, bool,
                     c10::Half*, Stream);

}  // namespace weft::kernels::cuda
