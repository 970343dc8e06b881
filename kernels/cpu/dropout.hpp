// Dropout (Srivastava et al., JMLR 15, 2014) with a mask of one byte a value. T: float, double,
// c10::BFloat16, c10::Half.
#pragma once

#include <cstdint>

#include "cpu/exact.hpp"

namespace weft::kernels {

// values: 1 with this probability, otherwise 0. They follow from `seed` alone, whatever the number of threads
// and the instruction set: xoshiro128++ (Blackman and Vigna, Scrambled linear pseudorandom number generators,
// 2021) in 16 lanes for each block of values.
void bernoulli(int64_t count, uint64_t seed, double probability, uint8_t* values);

// y = x mask scale, or residual + x mask scale unless `residual` is null. mask: 0 or 1.
template <typename T>
void dropout(int64_t count, const T* residual, const T* x, const uint8_t* mask, Exact<T> scale, T* y);

}  // namespace weft::kernels
