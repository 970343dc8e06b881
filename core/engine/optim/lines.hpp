// A parameter of two dimensions or more as matrices of its last two, and the rows that a slice of it covers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel.hpp"
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

// Elements of a slice that lie side by side in one row.
struct Line {
  int64_t at = 0, count = 0;  // in the slice
  int64_t row = 0;            // in a flattened row state
  int64_t column = 0;         // of the first element, in a flattened column state
};

// The lines of elements [begin, begin + count) of a slice, in order; where a cut leaves several runs of each
// row, each is a line, which may be empty. A parameter that is no matrix is one line whose columns are
// the elements of the slice.
class Lines {
 public:
  Lines(const Slice& slice, int64_t begin, int64_t count);
  static Lines all(const Slice& slice) { return Lines(slice, 0, slice.value.numel()); }
  static Lines counted(const Slice& slice) { return Lines(slice, slice.counted_begin, slice.counted_count); }

  int64_t size() const;
  Line operator[](int64_t index) const;

 private:
  int64_t whole_row(int64_t of_part) const;
  int64_t whole_place(size_t dim, int64_t place) const;

  at::IntArrayRef shape_;
  const Cut& cut_;
  std::vector<int64_t> local_;
  int64_t first_;        // of the slice, in the part
  int64_t begin_, end_;  // in the part
  int64_t length_;       // of a row of the part; 0: no matrix
  int64_t of_row_;       // lines
};

// Calls body(part, line) for every line, the parts side by side on threads; returns how many parts there are
// at most: parallel_parts(). Sums that are kept by part and added in their order do not depend on the
// threads' luck.
template <class Body>
void for_each_line(const Lines& lines, int64_t parts, const Body& body) {
  const int64_t size = lines.size();
  kernels::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part)
      for (int64_t i = size * part / parts; i < size * (part + 1) / parts; ++i) body(part, lines[i]);
  });
}

// Adds body(line, columns of the line) to the rows, and what body adds to the columns.
template <class Body>
void sum_rows_and_columns(const Lines& lines, const Matrices& matrices, double* rows, double* columns,
                          const Body& body) {
  const int64_t parts = kernels::parallel_parts();
  std::vector<std::vector<double>> own(static_cast<size_t>(parts),
                                       std::vector<double>(static_cast<size_t>(matrices.num_columns())));
  for_each_line(lines, parts, [&](int64_t part, const Line& line) {
    rows[line.row] += body(line, own[static_cast<size_t>(part)].data() + line.column);
  });
  for (const std::vector<double>& part : own)
    for (size_t column = 0; column < part.size(); ++column) columns[column] += part[column];
}

template <class Body>
double sum_lines(const Lines& lines, const Body& body) {
  const int64_t parts = kernels::parallel_parts();
  std::vector<double> own(static_cast<size_t>(parts));
  for_each_line(lines, parts,
                [&](int64_t part, const Line& line) { own[static_cast<size_t>(part)] += body(line); });
  double sum = 0;
  for (const double part : own) sum += part;
  return sum;
}

}  // namespace weft::optim
