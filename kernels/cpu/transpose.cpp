#include "cpu/transpose.hpp"

#include <ATen/ops/empty.h>

#include "cpu/dispatch.hpp"
#include "cpu/vector.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kValuesOfATask = 1 << 16;
constexpr int64_t kRowsOfABand = 128;

WEFT_INLINE void transpose_square(const float* from, int64_t from_row, float* to, int64_t to_row) {
  Floats x[kLanes];
  for (int64_t r = 0; r < kLanes; ++r) load(x[r], from + r * from_row);
  transpose_lanes(x);
  for (int64_t c = 0; c < kLanes; ++c) store(x[c], to + c * to_row);
}

// Bands of rows: their pages stay known to the processor while all columns pass.
template <InstructionSet>
WEFT_INLINE void transpose_part_body(int64_t rows, int64_t columns, const float* from, int64_t from_row,
                                     float* to, int64_t to_row) {
  const int64_t whole_rows = rows / kLanes * kLanes, whole_columns = columns / kLanes * kLanes;
  for (int64_t first = 0; first < whole_rows; first += kRowsOfABand) {
    const int64_t last = std::min(first + kRowsOfABand, whole_rows);
    for (int64_t c = 0; c < whole_columns; c += kLanes) {
      for (int64_t r = first; r < last; r += kLanes)
        transpose_square(from + r * from_row + c, from_row, to + c * to_row + r, to_row);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      to[c * to_row + r] = from[r * from_row + c];
  }
}
WEFT_DISPATCH(transpose_part,
              (int64_t rows, int64_t columns, const float* from, int64_t from_row, float* to, int64_t to_row),
              (rows, columns, from, from_row, to, to_row))

}  // namespace

void transpose(int64_t rows, int64_t columns, const float* from, int64_t from_row, float* to,
               int64_t to_row) {
  parallel_for(0, columns, std::max<int64_t>(kLanes, kValuesOfATask / std::max<int64_t>(rows, 1)),
               [&](int64_t first, int64_t last) {
                 transpose_part(rows, last - first, from + first, from_row, to + first * to_row, to_row);
               });
}

at::Tensor packed(const at::Tensor& x) {
  if (!x.is_cpu() || x.scalar_type() != at::kFloat || x.is_contiguous() || !x.t().is_contiguous())
    return x.contiguous();
  const at::Tensor result = at::empty(x.sizes(), x.options());
  transpose(x.size(1), x.size(0), x.const_data_ptr<float>(), x.size(0), result.mutable_data_ptr<float>(),
            x.size(1));
  return result;
}

}  // namespace weft::kernels
