// Weft's operators of Adafactor and CAME in host memory.
#include <ATen/Dispatch.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "cpu/update_rules.hpp"
#include "formula/matrix_range.hpp"
#include "parallel.hpp"
#include "weft/device_operators.hpp"

namespace weft {

namespace {

using kernels::CountedRange;
using kernels::MatrixRange;

// Elements [at, at + count) of a range, which are of one row. `row` and `column` count from those of the
// range.
struct Line {
  int64_t at, count, row, column;
};

// Calls body(part, line) for the rows of elements [begin, begin + count) of a range. The `parts` run on
// several threads: sums that are kept for each part and added in the order of parts do not depend on which
// thread is first.
template <class Body>
void for_each_line(const MatrixRange& range, int64_t begin, int64_t count, int64_t parts, const Body& body) {
  const MatrixRange own = {range.begin + begin, count, range.rows, range.columns};
  const int64_t first = own.first_row(), rows = own.num_rows(), last = own.begin + own.count;
  kernels::parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part)
      for (int64_t row = first + rows * part / parts; row < first + rows * (part + 1) / parts; ++row) {
        const int64_t at = std::max(own.begin, row * range.columns);
        const int64_t end = std::min(last, (row + 1) * range.columns);
        const int64_t matrix = row / range.rows - range.first_matrix();
        body(part, Line{at - range.begin, end - at, row - range.first_row(),
                        matrix * range.columns + at - row * range.columns});
      }
  });
}

// Adds the result of body(line, columns of the line) to the row of each line, and what `body` adds to its
// columns to `columns`.
template <class Body>
void sum_lines(const CountedRange& place, double* rows, double* columns, const Body& body) {
  const int64_t parts = kernels::parallel_parts();
  const auto count = static_cast<size_t>(place.range.num_columns());
  std::vector<std::vector<double>> own(static_cast<size_t>(parts), std::vector<double>(count));
  for_each_line(place.range, place.counted_begin, place.counted_count, parts,
                [&](int64_t part, const Line& line) {
                  rows[line.row] += body(line, own[static_cast<size_t>(part)].data() + line.column);
                });
  for (const std::vector<double>& part : own)
    for (size_t column = 0; column < count; ++column) columns[column] += part[column];
}

// Calls body(i, place, T()) for each range with the C++ type of its elements.
template <class Body>
void for_places(at::TensorList ranges, at::IntArrayRef places, const Body& body) {
  for (size_t i = 0; i < ranges.size(); ++i)
    AT_DISPATCH_FLOATING_TYPES(ranges[i].scalar_type(), "factored", [&] {
      body(i, kernels::counted_range(places.data(), i, ranges[i].numel()), scalar_t());
    });
}

at::Tensor factored_sums(at::TensorList gradients, at::TensorList averages, at::TensorList row_factors,
                         at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates) {
  int64_t count = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const MatrixRange matrices = kernels::counted_range(places.data(), i, gradients[i].numel()).range;
    count += matrices.num_rows() + matrices.num_columns();
  }
  const at::Tensor sums = at::zeros({count}, at::kDouble);
  double* rows = sums.mutable_data_ptr<double>();
  for_places(gradients, places, [&]<class T>(size_t i, const CountedRange& place, T) {
    const T* const gradient = gradients[i].const_data_ptr<T>();
    double* const columns = rows + place.range.num_rows();
    if (averages.empty()) {
      sum_lines(place, rows, columns, [&](const Line& line, double* of_line) {
        return kernels::squares(line.count, gradient + line.at, of_line);
      });
    } else {
      const T* const average = averages[i].const_data_ptr<T>();
      const T* const of_rows = row_factors[i].const_data_ptr<T>();
      const T* const of_columns = column_factors[i].const_data_ptr<T>();
      const T rate = static_cast<T>(rates[i]);
      sum_lines(place, rows, columns, [&](const Line& line, double* of_line) {
        return kernels::instabilities(line.count, average + line.at, gradient + line.at,
                                      of_columns + line.column, rate * of_rows[line.row], of_line);
      });
    }
    rows = columns + place.range.num_columns();
  });
  return sums;
}

at::Tensor factored_norms(at::TensorList gradients, at::TensorList row_factors, at::TensorList column_factors,
                          at::IntArrayRef places) {
  const at::Tensor norms = at::zeros({static_cast<int64_t>(gradients.size())}, at::kDouble);
  for_places(gradients, places, [&]<class T>(size_t i, const CountedRange& place, T) {
    const T* const gradient = gradients[i].const_data_ptr<T>();
    const T* const of_rows = row_factors[i].const_data_ptr<T>();
    const T* const of_columns = column_factors[i].const_data_ptr<T>();
    const int64_t parts = kernels::parallel_parts();
    std::vector<double> own(static_cast<size_t>(parts));
    for_each_line(
        place.range, place.counted_begin, place.counted_count, parts, [&](int64_t part, const Line& line) {
          const double row = of_rows[line.row];
          own[static_cast<size_t>(part)] +=
              row * row * kernels::scaled_squares(line.count, gradient + line.at, of_columns + line.column);
        });
    for (const double part : own) norms.mutable_data_ptr<double>()[i] += part;
  });
  return norms;
}

// Calls body(i, line, factor of the line's row, factors of its columns) for every row of every range.
template <class Body>
void for_rows(at::TensorList ranges, at::TensorList row_factors, at::TensorList column_factors,
              at::IntArrayRef places, const Body& body) {
  for_places(ranges, places, [&]<class T>(size_t i, const CountedRange& place, T) {
    const T* const of_rows = row_factors[i].const_data_ptr<T>();
    const T* const of_columns = column_factors[i].const_data_ptr<T>();
    for_each_line(
        place.range, 0, place.range.count, kernels::parallel_parts(),
        [&](int64_t, const Line& line) { body(i, line, of_rows[line.row], of_columns + line.column); });
  });
}

void factored_average(at::TensorList averages, at::TensorList gradients, at::TensorList row_factors,
                      at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates,
                      double beta) {
  for_rows(averages, row_factors, column_factors, places,
           [&]<class T>(size_t i, const Line& line, T row, const T* columns) {
             kernels::factored_average(line.count, averages[i].data_ptr<T>() + line.at,
                                       gradients[i].const_data_ptr<T>() + line.at, columns,
                                       static_cast<T>((1 - beta) * rates[i]) * row, static_cast<T>(beta));
           });
}

void factored_step(at::TensorList values, at::TensorList gradients, at::TensorList row_factors,
                   at::TensorList column_factors, at::IntArrayRef places, at::ArrayRef<double> rates,
                   at::ArrayRef<double> keep) {
  for_rows(values, row_factors, column_factors, places,
           [&]<class T>(size_t i, const Line& line, T row, const T* columns) {
             kernels::factored_step(line.count, values[i].data_ptr<T>() + line.at,
                                    gradients[i].const_data_ptr<T>() + line.at, columns,
                                    static_cast<T>(rates[i]) * row, static_cast<T>(keep[i]));
           });
}

TORCH_LIBRARY_IMPL(weft, CPU, library) {
  using namespace operators;
  implement<FactoredSums>(library, factored_sums);
  implement<FactoredNorms>(library, factored_norms);
  implement<FactoredAverage>(library, factored_average);
  implement<FactoredStep>(library, factored_step);
}

}  // namespace

}  // namespace weft
