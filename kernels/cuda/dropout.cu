#include "cuda/dropout.hpp"

#include "cuda/reduce.cuh"
#include "cuda/vectors.cuh"
#include "formula/dropout.hpp"

namespace weft::kernels::cuda {

namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32;
[[maybe_unused]] constexpr int kBlocks =
    10;  // on a multiprocessor: leaves 48 registers, with which nothing spills
[[maybe_unused]] constexpr int kBlocksOfAWarp = 2;           // of random numbers: 16 lanes each
constexpr int kDraws = 32;                                   // of a lane before memory is touched
constexpr int kElements = 8;                                 // of a thread at a time
constexpr int kOfTheDraws = kDraws * kLanesOfADropoutBlock;  // values of a block of random numbers: 512
constexpr int kRounds = static_cast<int>(kValuesOfADropoutBlock) / kOfTheDraws;

// Calls apply(i, bits) for each i that is a multiple of kElements: bit k tells whether value i + k is kept.
//
// Each lane of a warp draws 32 times; a ballot gives all lanes the outcome of one draw, which is that of 16
// neighbouring values of each of the warp's two blocks. Draw d is wanted by the two lanes that have these
// values in memory: lanes 2 (d % 16) and 2 (d % 16) + 1, in the first or the second half of the values.
template <class Apply>
__device__ void for_kept(int64_t count, MaskSeed seed, uint32_t below, const Apply& apply) {
  const int lane = threadIdx.x % 32;
  const int64_t warp = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int64_t first = warp * kBlocksOfAWarp * kValuesOfADropoutBlock;
  if (first >= count) return;  // the whole warp
  const uint64_t number = seed.address != nullptr ? static_cast<uint64_t>(*seed.address) : seed.number;
  DropoutLane state = dropout_lane(number, warp * kBlocksOfAWarp + lane / kLanesOfADropoutBlock,
                                   lane % kLanesOfADropoutBlock);
  for (int round = 0; round < kRounds; ++round) {
    uint32_t kept[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half)
      for (int d = 0; d < kDraws / 2; ++d) {
        const uint32_t votes = __ballot_sync(kWholeWarp, draw(state) < below);
        if (lane / 2 == d) kept[half] = votes;
      }
#pragma unroll
    for (int part = 0; part < 2 * kBlocksOfAWarp; ++part) {
      const int block = part / 2, half = part % 2;
      const int64_t i = first + block * kValuesOfADropoutBlock + round * kOfTheDraws +
                        half * kOfTheDraws / 2 + lane * kElements;
      const uint32_t bits = kept[half] >> (kLanesOfADropoutBlock * block + kElements * (lane % 2));
      if (i < count) apply(i, bits & 0xFF);
    }
  }
}

template <class T, bool kVectors>
__global__ void __launch_bounds__(kThreads, kBlocks)
    dropout_kernel(int64_t count, MaskSeed seed, uint32_t below, const T* residual, const T* x, float scale,
                   T* y) {
  for_kept(count, seed, below, [&](int64_t i, uint32_t bits) {
    if (kVectors && i + kElements <= count) {
      float values[kElements], added[kElements];
      load(x + i, values);
      if (residual != nullptr) load(residual + i, added);
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        values[k] = values[k] * (bits >> k & 1 ? scale : 0.0f);
        if (residual != nullptr) values[k] = values[k] + added[k];
      }
      return store(values, y + i);
    }
    const int64_t end = count - i < kElements ? count : i + kElements;
#pragma unroll 1
    for (int64_t at = i; at < end; ++at, bits >>= 1) {
      const float value = static_cast<float>(x[at]) * (bits & 1 ? scale : 0.0f);
      y[at] = static_cast<T>(residual != nullptr ? value + static_cast<float>(residual[at]) : value);
    }
  });
}

template <bool kVectors>
__global__ void __launch_bounds__(kThreads, kBlocks)
    bernoulli_kernel(int64_t count, MaskSeed seed, uint32_t below, uint8_t* values) {
  for_kept(count, seed, below, [&](int64_t i, uint32_t bits) {
    if (kVectors && i + kElements <= count) {
      Pack<uint8_t, kElements> pack;
#pragma unroll
      for (int k = 0; k < kElements; ++k) pack.values[k] = static_cast<uint8_t>(bits >> k & 1);
      return set_vector_at(values + i, pack);
    }
    const int64_t end = count - i < kElements ? count : i + kElements;
#pragma unroll 1
    for (int64_t at = i; at < end; ++at, bits >>= 1) values[at] = static_cast<uint8_t>(bits & 1);
  });
}

int64_t blocks_of(int64_t count) {
  constexpr int64_t kOfABlock = int64_t{kWarps} * kBlocksOfAWarp * kValuesOfADropoutBlock;
  return grid_of((count + kOfABlock - 1) / kOfABlock, "blocks of values");
}

}  // namespace

template <class T>
void dropout(int64_t count, MaskSeed seed, double probability, const T* residual, const T* x, float scale,
             T* y, Stream stream) {
  if (count == 0) return;
  const bool vectors = aligned<kElements>(residual) && aligned<kElements>(x) && aligned<kElements>(y);
  launch(vectors ? dropout_kernel<T, true> : dropout_kernel<T, false>, blocks_of(count), kThreads, 0, stream,
         count, seed, dropout_threshold(probability), residual, x, scale, y);
}
template void dropout(int64_t, MaskSeed, double, const float*, const float*, float, float*, Stream);
template void dropout(int64_t, MaskSeed, double, const c10::BFloat16*, const c10::BFloat16*, float,
                      c10::BFloat16*, Stream);
template void dropout(int64_t, MaskSeed, double, const c10::Half*, const c10::Half*, float, c10::Half*,
                      Stream);

void bernoulli(int64_t count, MaskSeed seed, double probability, uint8_t* values, Stream stream) {
  if (count == 0) return;
  launch(aligned<kElements>(values) ? bernoulli_kernel<true> : bernoulli_kernel<false>, blocks_of(count),
         kThreads, 0, stream, count, seed, dropout_threshold(probability), values);
}

}  // namespace weft::kernels::cuda
