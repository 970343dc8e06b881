#include "cuda/attention_merge.hpp"

#include "cuda/reduce.cuh"
#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

namespace {

constexpr int kThreads = 128, kThreadsOfARow = 16;  // 64 channels at 4 a thread
constexpr int kElements = 4;

template <class T>
__device__ int64_t offset_of(const HeadsOf<T>& tensor, const MergeShape& shape, int64_t row) {
  const int64_t position = row % shape.positions, head = row / shape.positions;
  return head / shape.heads * tensor.batch + head % shape.heads * tensor.head + position * tensor.position;
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(const MergeShape shape, int64_t rows, const Heads sum, float* log_sum_exp,
                 const HeadsOf<const T> part, const float* part_log_sum_exp) {
  constexpr int kRows = kThreads / kThreadsOfARow;
  const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.x / kThreadsOfARow;
  const int lane = threadIdx.x % kThreadsOfARow;
  MergeWeights weights = {};
  if (row < rows) weights = merge_weights(log_sum_exp[row], part_log_sum_exp[row]);
  __syncwarp();  // all threads of the row have read what one of them overwrites
  if (row >= rows) return;
  if (lane == 0) log_sum_exp[row] = weights.log_sum_exp;
  float* const one = sum.data + offset_of(sum, shape, row);
  const T* const other = part.data + offset_of(part, shape, row);
  for (int64_t d = N * lane; d < shape.size; d += N * kThreadsOfARow) {
    float values[N], added[N];
    load(one + d, values);
    load(other + d, added);
    // A row without keys may hold anything.
#pragma unroll
    for (int k = 0; k < N; ++k)
      values[k] = (weights.one != 0 ? values[k] * weights.one : 0.0f) +
                  (weights.other != 0 ? added[k] * weights.other : 0.0f);
    store(values, one + d);
  }
}

template <class T>
bool in_vectors(const HeadsOf<T>& tensor, int64_t size) {
  return (size | tensor.batch | tensor.head | tensor.position) % kElements == 0 &&
         aligned<kElements>(tensor.data);
}

}  // namespace

template <class T>
void merge_attention(const MergeShape& shape, const Heads& sum, float* log_sum_exp,
                     const HeadsOf<const T>& part, const float* part_log_sum_exp, Stream stream) {
  const int64_t rows = shape.batch * shape.heads * shape.positions;
  if (rows == 0 || shape.size == 0) return;
  constexpr int64_t kRows = kThreads / kThreadsOfARow;
  const int64_t blocks = grid_of((rows + kRows - 1) / kRows, "blocks of rows");
  if (in_vectors(sum, shape.size) && in_vectors(part, shape.size))
    launch(merge_kernel<T, kElements>, blocks, kThreads, 0, stream, shape, rows, sum, log_sum_exp, part,
           part_log_sum_exp);
  else
    launch(merge_kernel<T, 1>, blocks, kThreads, 0, stream, shape, rows, sum, log_sum_exp, part,
           part_log_sum_exp);
}
template void merge_attention(const MergeShape&, const Heads&, float*, const HeadsOf<const float>&,
                              const float*, Stream);
template void merge_attention(const MergeShape&, const Heads&, float*, const HeadsOf<const c10::BFloat16>&,
                              const float*, Stream);
template void merge_attention(const MergeShape&, const Heads&, float*, const HeadsOf<const c10::Half>&,
                              const float*, Stream);

}  // namespace weft::kernels::cuda
