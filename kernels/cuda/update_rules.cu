#include "cuda/update_rules.hpp"

#include "cuda/vectors.cuh"

namespace weft::kernels::cuda {

namespace {

constexpr int kThreads = 256;
[[maybe_unused]] constexpr int kBlocks = 6;  // on a multiprocessor: leaves 40 registers
// Of fp32, 16 bytes. A thread has the same elements of up to five arrays in registers.
constexpr int kElements = 4;

__global__ void decide_kernel(const StepDecision work) {
  *work.decision =
      decide(*work.norm_part, work.norm_type, work.max_norm, work.clip, work.loss_scale, work.skips);
}

template <class Range>
struct Work {
  RangeTable<Range> table;
  StepNumbers step;
  Scaling scaling;
};

// Calls update(chunk, range, step, factor) for this block's chunk, unless the update is skipped.
template <class Range, class Update>
__device__ void for_chunk(const Work<Range>& work, const Update& update) {
  const Decision decision = decision_of(work.scaling);
  if (decision.skipped != 0) return;
  const Chunk chunk = work.table.chunks[blockIdx.x];
  update(chunk, work.table.ranges[chunk.range], work.step, static_cast<float>(decision.factor));
}

// Calls vector(i) for the elements [i, i + kElements) that are whole, if there are `vectors`, and single(i)
// for the rest.
template <class Vector, class Single>
__device__ void for_elements(int32_t count, bool vectors, const Vector& vector, const Single& single) {
  const int32_t whole = vectors ? count / kElements * kElements : 0;
  for (int32_t i = kElements * static_cast<int32_t>(threadIdx.x); i < whole; i += kElements * kThreads)
    vector(i);
#pragma unroll 1
  for (int32_t i = whole + static_cast<int32_t>(threadIdx.x); i < count; i += kThreads) single(i);
}

template <class T>
__device__ T* at(T* memory, int64_t begin) {
  return memory != nullptr ? memory + begin : nullptr;
}

template <class G, class C>
__global__ void __launch_bounds__(kThreads, kBlocks)
    adam_kernel(const Work<AdamRange<G, C>> work, const AdamFactors factors) {
  for_chunk(work,
            [&](const Chunk& chunk, const AdamRange<G, C>& range, const StepNumbers& step, float factor) {
              float* const value = range.value + chunk.begin;
              float* const average = range.average + chunk.begin;
              float* const square = range.square + chunk.begin;
              const G* const gradient = range.gradient + chunk.begin;
              C* const copy = at(range.copy, chunk.begin);
              const bool vectors = aligned<kElements>(value) && aligned<kElements>(average) &&
                                   aligned<kElements>(square) && aligned<kElements>(gradient) &&
                                   aligned<kElements>(copy);
              for_elements(
                  chunk.count, vectors,
                  [&](int32_t i) {
                    float w[kElements], m[kElements], v[kElements], g[kElements];
                    load(value + i, w);
                    load(average + i, m);
                    load(square + i, v);
                    load(gradient + i, g);
#pragma unroll
                    for (int k = 0; k < kElements; ++k)
                      adam_element(factors, step, g[k] * factor, w[k], m[k], v[k]);
                    store(w, value + i);
                    store(m, average + i);
                    store(v, square + i);
                    if (copy != nullptr) store(w, copy + i);
                  },
                  [&](int32_t i) {
                    float w = value[i], m = average[i], v = square[i];
                    adam_element(factors, step, static_cast<float>(gradient[i]) * factor, w, m, v);
                    value[i] = w;
                    average[i] = m;
                    square[i] = v;
                    if (copy != nullptr) copy[i] = static_cast<C>(w);
                  });
            });
}

template <class G, class C>
__global__ void __launch_bounds__(kThreads, kBlocks)
    sgd_kernel(const Work<SgdRange<G, C>> work, const SgdFactors factors) {
  for_chunk(work,
            [&](const Chunk& chunk, const SgdRange<G, C>& range, const StepNumbers& step, float factor) {
              float* const value = range.value + chunk.begin;
              float* const momentum = at(range.momentum, chunk.begin);
              const G* const gradient = range.gradient + chunk.begin;
              C* const copy = at(range.copy, chunk.begin);
              const bool vectors = aligned<kElements>(value) && aligned<kElements>(momentum) &&
                                   aligned<kElements>(gradient) && aligned<kElements>(copy);
              for_elements(
                  chunk.count, vectors,
                  [&](int32_t i) {
                    float w[kElements], m[kElements] = {}, g[kElements];
                    load(value + i, w);
                    load(gradient + i, g);
                    if (momentum != nullptr) load(momentum + i, m);
#pragma unroll
                    for (int k = 0; k < kElements; ++k) sgd_element(factors, step, g[k] * factor, w[k], m[k]);
                    store(w, value + i);
                    if (momentum != nullptr) store(m, momentum + i);
                    if (copy != nullptr) store(w, copy + i);
                  },
                  [&](int32_t i) {
                    float w = value[i], m = momentum != nullptr ? momentum[i] : 0;
                    sgd_element(factors, step, static_cast<float>(gradient[i]) * factor, w, m);
                    value[i] = w;
                    if (momentum != nullptr) momentum[i] = m;
                    if (copy != nullptr) copy[i] = static_cast<C>(w);
                  });
            });
}

}  // namespace

void decide_step(const StepDecision& work, Stream stream) {
  launch(decide_kernel, 1, 1, 0, stream, work);
}

template <class G, class C>
void adam(const RangeTable<AdamRange<G, C>>& table, const AdamFactors& factors, const StepNumbers& step,
          const Scaling& scaling, Stream stream) {
  if (table.num_chunks == 0) return;
  launch(adam_kernel<G, C>, grid_of(table.num_chunks, "chunks"), kThreads, 0, stream,
         Work<AdamRange<G, C>>{table, step, scaling}, factors);
}

template <class G, class C>
void sgd(const RangeTable<SgdRange<G, C>>& table, const SgdFactors& factors, const StepNumbers& step,
         const Scaling& scaling, Stream stream) {
  if (table.num_chunks == 0) return;
  launch(sgd_kernel<G, C>, grid_of(table.num_chunks, "chunks"), kThreads, 0, stream,
         Work<SgdRange<G, C>>{table, step, scaling}, factors);
}

#define WEFT_INSTANTIATE(G, C)                                                                   \
  template void adam(const RangeTable<AdamRange<G, C>>&, const AdamFactors&, const StepNumbers&, \
                     const Scaling&, Stream);                                                    \
  template void sgd(const RangeTable<SgdRange<G, C>>&, const SgdFactors&, const StepNumbers&,    \
                    const Scaling&, Stream);
WEFT_INSTANTIATE(float, c10::BFloat16)
WEFT_INSTANTIATE(float, c10::Half)
WEFT_INSTANTIATE(c10::BFloat16, c10::BFloat16)
WEFT_INSTANTIATE(c10::Half, c10::Half)

}  // namespace weft::kernels::cuda
