// Matrix products with few rows, as they are when tokens are generated one after the other. Each element of
// the matrix is used only so often as there are rows, so reading it is all the work; libtorch's products
// copy it to another layout first.
#pragma once

#include <cstdint>

namespace weft::kernels {

// Rows, above which a general product is faster.
constexpr int64_t kMostFewRows = 8;

// y = x w^T + bias. x: (rows, inputs), contiguous; y: (rows, outputs), contiguous; bias: (outputs) or null.
// w has element (output, input) at w[output * of_output + input * of_input], where one of the two distances
// is 1. A row of y has the same bits whatever the number of rows.
void few_rows_product(int64_t rows, int64_t inputs, int64_t outputs, const float* x, const float* w,
                      int64_t of_output, int64_t of_input, const float* bias, float* y);

}  // namespace weft::kernels
