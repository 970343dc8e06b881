#include "cpu/row_product.hpp"

#include <algorithm>

#include "cpu/dispatch.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kWeightsOfATask = int64_t{1} << 16;
constexpr int64_t kTogether = 4;  // rows that are read side by side

using Quad = float __attribute__((vector_size(16)));

WEFT_INLINE void fold(const Floats& x, Quad& sums) {
  sums = (__builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7)) +
         (__builtin_shufflevector(x, x, 8, 9, 10, 11) + __builtin_shufflevector(x, x, 12, 13, 14, 15));
}

// {a[0] + a[1], a[2] + a[3], b[0] + b[1], b[2] + b[3]}
WEFT_INLINE void add_pairs(const Quad& a, const Quad& b, Quad& sums) {
  sums = __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

// Each row is summed in one order, whichever rows are beside it.
template <InstructionSet>
WEFT_INLINE void dot_rows_body(int64_t rows, int64_t in, const float* x, const float* w, int64_t row,
                               const float* bias, float* y) {
  const int64_t whole = in / kLanes * kLanes;
  for (int64_t first = 0; first < rows; first += kTogether) {
    const int64_t count = std::min(kTogether, rows - first);
    const float* from[kTogether];
    for (int64_t r = 0; r < kTogether; ++r) from[r] = w + (first + std::min(r, count - 1)) * row;
    Floats sums[kTogether] = {}, value, weight;
    for (int64_t k = 0; k < whole; k += kLanes) {
      load(value, x + k);
      for (int64_t r = 0; r < kTogether; ++r) {
        __builtin_prefetch(from[r] + k + kTogether * row);  // of the next rows, which need not exist
        load(weight, from[r] + k);
        sums[r] += weight * value;
      }
    }
    if (whole < in) {
      load_part(value, x + whole, in - whole, 0);
      for (int64_t r = 0; r < kTogether; ++r) {
        load_part(weight, from[r] + whole, in - whole, 0);
        sums[r] += weight * value;
      }
    }
    Quad folded[kTogether], low, high;
    for (int64_t r = 0; r < kTogether; ++r) fold(sums[r], folded[r]);
    add_pairs(folded[0], folded[1], low);
    add_pairs(folded[2], folded[3], high);
    add_pairs(low, high, folded[0]);
    for (int64_t r = 0; r < count; ++r)
      y[first + r] = folded[0][r] + (bias != nullptr ? bias[first + r] : 0.0F);
  }
}
WEFT_DISPATCH(dot_rows,
              (int64_t rows, int64_t in, const float* x, const float* w, int64_t row, const float* bias,
               float* y),
              (rows, in, x, w, row, bias, y))

}  // namespace

void row_product(const RowMatrix& matrix, const float* x, const float* bias, float* y) {
  const int64_t grain = std::max(kTogether, kWeightsOfATask / std::max<int64_t>(matrix.in, 1));
  parallel_for(0, matrix.out, grain, [&](int64_t first, int64_t last) {
    dot_rows(last - first, matrix.in, x, matrix.w + first * matrix.row, matrix.row,
             bias != nullptr ? bias + first : nullptr, y + first);
  });
}

}  // namespace weft::kernels
