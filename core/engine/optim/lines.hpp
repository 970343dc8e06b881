// Views a parameter of two dimensions or more as matrices of its last two, and lists the rows, or pieces of
// rows, that a slice of it covers.
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

// Adjacent elements of a slice in one row.
struct Line {
  int64_t at = 0, count = 0;  // the elements [at, at + count) of the slice
  int64_t row = 0;            // index of the row in a flattened row state
  int64_t column = 0;         // index of the first element in a flattened column state
};

// The lines of elements [begin, begin + count) of a slice, in order. Where a cut leaves several runs of each
// row, each run is a line, which may be empty. A parameter with fewer than two dimensions is one line, whose
// columns are the elements of the slice.
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
  int64_t first_;        // where the slice begins in the part
  int64_t begin_, end_;  // the elements in the part
  int64_t length_;       // of a row of the part; 0: not a matrix
  int64_t of_row_;       // number of lines in a row
};

// Calls body(part, line) for every line. Splits the lines into `parts`, which run on several threads. Sums
// that are kept for each part and added in the order of parts do not depend on the order of threads.
template <class Body>
void for_each_line(const Lines& lines, int64_t parts, const Body& body) {
  const int64_t size = lines.size();
  kernels::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part)
      for (int64_t i = size * part / parts; i < size * (part + 1) / parts; ++i) body(part, lines[i]);
  });
}

// Adds the result of body(line, columns of the line) to the row of each line, and what `body` adds to its
// columns to `columns`.
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

// Returns the sum of body(line) over all lines.
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
