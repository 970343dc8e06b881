// Digests and sketches of values that ranks hold in different divisions. Both are sums over elements with
// weights that depend on the element's place in this rank's part alone, so those of disjoint ranges add up to
// that of the part, however the ranks divide it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace weft {

// Returns the digest of elements [begin, begin + values.numel()) of a part, modulo 2^64, after a cast to
// `dtype`. Other bits give another digest, up to a chance of about 2^-32.
uint64_t digest_of(const at::Tensor& values, int64_t begin, at::ScalarType dtype);

// Random projections of a range: its dot products with vectors of random signs (Alon, Matias and Szegedy,
// 1996). They are linear, so the sketch of a sum over ranks is the sum of the ranks' sketches, up to
// rounding, and the square of each one is the square of the 2-norm in the mean.
inline constexpr int kSketches = 4;
struct Sketch {
  std::array<double, kSketches> projections = {};
  double square = 0;  // of the 2-norm; of several vectors that were added, the sum of theirs
};

// Adds elements [begin, begin + values.numel()) of a part to `sketch`.
void add_to_sketch(const at::Tensor& values, int64_t begin, Sketch& sketch);
// Returns the mean of the squares of the projections.
double mean_square(const std::array<double, kSketches>& projections);

}  // namespace weft
