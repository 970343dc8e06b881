#include "optim/matrix_slice.hpp"

#include <algorithm>

namespace weft::optim {

namespace {

// The indices that runs of a dimension keep, in order.
std::vector<int64_t> indices_of(const std::vector<Run>& runs) {
  std::vector<int64_t> indices;
  for (const Run& run : runs)
    for (int64_t index = run.begin; index < run.end(); ++index) indices.push_back(index);
  return indices;
}

}  // namespace

MatrixSlice::MatrixSlice(const Slice& slice) {
  const at::IntArrayRef shape = slice.parameter->shape;
  const size_t num_dims = shape.size();
  std::vector<std::vector<int64_t>> kept;
  for (const std::vector<Run>& runs : slice.cut->dims) kept.push_back(indices_of(runs));
  const auto size = [&](size_t dim) { return std::max<int64_t>(1, static_cast<int64_t>(kept[dim].size())); };
  range = {slice.begin, slice.value.numel(), size(num_dims - 2), size(num_dims - 1)};
  const auto row_of_whole = [&](int64_t row) {
    int64_t place = 0, stride = 1;
    for (size_t dim = num_dims - 1; dim-- > 0; stride *= shape[dim]) {
      place += kept[dim][static_cast<size_t>(row % size(dim))] * stride;
      row /= size(dim);
    }
    return place;
  };
  for (int64_t row = 0; row < range.num_rows(); ++row) rows.push_back(row_of_whole(range.first_row() + row));
  for (int64_t matrix = 0; matrix < range.num_matrices(); ++matrix) {
    const int64_t whole = row_of_whole((range.first_matrix() + matrix) * range.rows) / shape[num_dims - 2];
    for (const int64_t column : kept.back()) columns.push_back(whole * shape.back() + column);
  }
}

}  // namespace weft::optim
