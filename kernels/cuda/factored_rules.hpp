// Adafactor and CAME over many ranges in one launch: rules whose direction is
//   u = row factor * gradient * column factor.
// T: float or double. The formulas are in formula/update_rules.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda/range_rules.hpp"
#include "formula/matrix_range.hpp"

namespace weft::kernels::cuda {

// The memory of a range; what a rule does not use may be null. Chunks of a range follow each other.
template <class T>
struct FactoredRange {
  T* value;  // what a rule changes; of sums, the average
  const T* gradient;
  const T* row_factors;     // of each row that the range has elements of
  const T* column_factors;  // of each column of each matrix that it has elements of
  double rate, keep;
  MatrixRange place;
  int64_t first_row, first_matrix;     // of the place: a kernel does not divide again
  int64_t counted_begin, counted_end;  // the elements that sums count
  int64_t first_chunk = 0, num_chunks = 0;
  int64_t first_sum = 0;  // of its rows; those of its columns follow
};

template <class T>
using FactoredTable = SummedTable<FactoredRange<T>>;

// w = keep w - rate u.
template <class T>
void factored_step(const FactoredTable<T>& table, Stream stream);
// m = beta m + (1 - beta) rate u.
template <class T>
void factored_average(const FactoredTable<T>& table, double beta, Stream stream);
// sums: (num_ranges), the squares of u over the counted elements. parts: (num_chunks), working memory.
template <class T>
void factored_norms(const FactoredTable<T>& table, double* parts, double* sums, Stream stream);

// Which block adds up what, in device memory: strips, whose warps have a row each, and tiles, whose threads
// have a column each; then the sums of tiles are added up.
constexpr int32_t kStripRows = 8;
constexpr int64_t kTileRows = 64, kTileColumns = 256;
// Rows of one matrix of a range, which count from the first of the range.
struct Tile {
  int64_t row, column;       // the first ones
  int64_t first_of_columns;  // the matrix's first column, among the column factors of the range
  int32_t range, rows;
};
// Columns of one matrix of one range.
struct TileColumns {
  int64_t first_tile, num_tiles;
  int64_t first_sum, count;
};
template <class T>
struct FactoredSumsTable {
  const FactoredRange<T>* ranges;
  const Tile *strips, *tiles;
  const TileColumns* columns;
  int64_t num_strips, num_tiles, num_columns;
};

// sums: those of the rows and columns of every range, over the counted elements of (rate u - m)^2, or of the
// squares of the gradients if a range has no value. parts: (num_tiles, kTileColumns), working memory. All are
// added up in double, in an order that depends on the shapes alone.
template <class T>
void factored_sums(const FactoredSumsTable<T>& table, double* parts, double* sums, Stream stream);

// The tables of sums for ranges, in host memory.
struct FactoredSumsPlan {
  explicit FactoredSumsPlan(const std::vector<MatrixRange>& ranges);
  std::vector<Tile> strips, tiles;
  std::vector<TileColumns> columns;
  std::vector<int64_t> first_sums;  // by range
  int64_t num_sums = 0;
};

inline FactoredSumsPlan::FactoredSumsPlan(const std::vector<MatrixRange>& ranges) {
  for (size_t r = 0; r < ranges.size(); ++r) {
    const MatrixRange& place = ranges[r];
    const auto range = static_cast<int32_t>(r);
    const int64_t num_rows = place.num_rows();
    first_sums.push_back(num_sums);
    num_sums += num_rows;
    for (int64_t matrix = 0; matrix < place.num_matrices(); ++matrix) {
      const int64_t begin = (place.first_matrix() + matrix) * place.rows - place.first_row();
      const int64_t first = std::max<int64_t>(0, begin), end = std::min(num_rows, begin + place.rows);
      const auto tile = [&](int64_t row, int64_t column, int64_t height) {
        return Tile{row, column, matrix * place.columns, range,
                    static_cast<int32_t>(std::min(height, end - row))};
      };
      for (int64_t row = first; row < end; row += kStripRows) strips.push_back(tile(row, 0, kStripRows));
      for (int64_t column = 0; column < place.columns; column += kTileColumns) {
        const auto first_tile = static_cast<int64_t>(tiles.size());
        for (int64_t row = first; row < end; row += kTileRows) tiles.push_back(tile(row, column, kTileRows));
        columns.push_back({first_tile, static_cast<int64_t>(tiles.size()) - first_tile, num_sums + column,
                           std::min(kTileColumns, place.columns - column)});
      }
      num_sums += place.columns;
    }
  }
}

}  // namespace weft::kernels::cuda
