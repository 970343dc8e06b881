// The product of one row and a matrix, which is all that a model with one sequence computes for a new token.
// It reads each weight once, so memory bounds its speed: the general products of MKL and oneDNN reach about
// half of that (measured on AMD Zen 4 with AVX2).
#pragma once

#include <cstdint>

namespace weft::kernels {

// A matrix w, (out, in): its rows are contiguous, at a distance of `row` numbers.
struct RowMatrix {
  int64_t out, in;
  const float* w;
  int64_t row;
};

// y = w x + bias. `bias` may be null. The bits do not depend on the number of threads.
void row_product(const RowMatrix& matrix, const float* x, const float* bias, float* y);

}  // namespace weft::kernels
