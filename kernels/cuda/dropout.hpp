// Dropout with the random numbers of the CPU (formula/dropout.hpp). No mask is stored: backward draws it
// again from the seed. T: float, c10::BFloat16 or c10::Half.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"

namespace weft::kernels::cuda {

// The seed of a mask: what `address` on the device holds when the kernel runs, or `number` if that is null.
struct MaskSeed {
  uint64_t number = 0;
  const int64_t* address = nullptr;
};

// y = x mask scale, or residual + x mask scale unless `residual` is null, with the mask that bernoulli()
// gives. y may be x or residual. Backward is the same function without a residual.
template <class T>
void dropout(int64_t count, MaskSeed seed, double probability, const T* residual, const T* x, float scale,
             T* y, Stream stream);

// values: 1 with this probability, otherwise 0.
void bernoulli(int64_t count, MaskSeed seed, double probability, uint8_t* values, Stream stream);

}  // namespace weft::kernels::cuda
