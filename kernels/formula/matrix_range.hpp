// Contiguous parts of matrices, for update rules with a factored second moment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formula/formula.hpp"

namespace weft::kernels {

// Elements [begin, begin + count) of a flattened tensor (matrices, rows, columns). Rows are numbered over all
// matrices. A range without elements has no rows and no matrices.
struct MatrixRange {
  int64_t begin, count;
  int64_t rows, columns;  // of each matrix, at least 1

  // Of the rows and matrices that the range has elements of.
  WEFT_FORMULA int64_t first_row() const { return begin / columns; }
  WEFT_FORMULA int64_t num_rows() const {
    return count == 0 ? 0 : (begin + count - 1) / columns - first_row() + 1;
  }
  WEFT_FORMULA int64_t first_matrix() const { return first_row() / rows; }
  WEFT_FORMULA int64_t num_matrices() const {
    return count == 0 ? 0 : (first_row() + num_rows() - 1) / rows - first_matrix() + 1;
  }
  WEFT_FORMULA int64_t num_columns() const { return num_matrices() * columns; }
};

// A range, and the elements [counted_begin, counted_begin + counted_count) of it that sums count.
struct CountedRange {
  MatrixRange range;
  int64_t counted_begin, counted_count;
};

// Returns range number i, which has `count` elements, from the list `places` of operators
// (weft/update_operators.hpp).
inline CountedRange counted_range(const int64_t* places, size_t i, int64_t count) {
  const int64_t* const own = places + 5 * i;
  return {{own[0], count, own[1], own[2]}, own[3], own[4]};
}

}  // namespace weft::kernels
