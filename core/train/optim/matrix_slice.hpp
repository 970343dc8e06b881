// Views a parameter of two dimensions or more as matrices of its last two, and finds the rows and columns
// that a slice of it has elements of.
#pragma once

#include <cstdint>
#include <vector>

#include "formula/matrix_range.hpp"
#include "weft/optim/rule.hpp"

namespace weft::optim {

struct Matrices {
  explicit Matrices(at::IntArrayRef shape) : rows(shape[shape.size() - 2]), columns(shape.back()), count(1) {
    for (const int64_t size : shape.slice(0, shape.size() - 2)) count *= size;
  }
  int64_t num_rows() const { return count * rows; }  // of a row state
  int64_t num_columns() const { return count * columns; }
  int64_t rows, columns, count;
};

inline bool is_factored(at::IntArrayRef shape) {
  return shape.size() >= 2;
}

// A slice among the matrices of its part of the parameter.
struct MatrixSlice {
  explicit MatrixSlice(const Slice& slice);

  kernels::MatrixRange range;
  // For each row, and for each column of each matrix, that the slice has elements of: its place in a
  // flattened row state or column state of the whole parameter.
  std::vector<int64_t> rows, columns;
};

}  // namespace weft::optim
