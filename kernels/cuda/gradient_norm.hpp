// The norm of many gradients, added up in double in an order that depends on their lengths and alignment
// alone. It is infinite if a gradient is not finite, so it is the check for overflow, too.
#pragma once

#include <cstdint>

#include "cuda/chunks.hpp"
#include "cuda/stream.hpp"

namespace weft::kernels::cuda {

// Whose sums a norm is made of: |g|, g^2, or the largest |g|.
enum class NormType : int32_t { kOne, kTwo, kInfinity };

// parts[c] = the part of chunk c. T: float, c10::BFloat16 or c10::Half. ranges[i]: where range i begins.
// Tables in device memory. Gradients of several types write to parts of one array, one after the other.
template <class T>
void norm_parts(NormType type, const T* const* ranges, const Chunk* chunks, int64_t num_chunks, double* parts,
                Stream stream);

// *total = the sum of the parts, or the largest for the infinite norm, before any root; infinity if it is not
// finite.
void norm_total(NormType type, const double* parts, int64_t num_parts, double* total, Stream stream);

}  // namespace weft::kernels::cuda
