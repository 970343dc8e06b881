#include "checkpoint/box.hpp"

#include <algorithm>
#include <numeric>

namespace weft::checkpoint {

namespace {

int64_t product(const std::vector<int64_t>& sizes, size_t from = 0) {
  return std::accumulate(sizes.begin() + static_cast<int64_t>(from), sizes.end(), int64_t{1},
                         std::multiplies<>());
}

// `index`: the place along the dimensions before `dim`, at which the range begins and ends.
void add_boxes(const Box& box, std::vector<int64_t> index, int64_t begin, int64_t count,
               std::vector<Box>& out) {
  if (count == 0) return;
  const size_t dim = index.size();
  std::vector<int64_t> extent(dim, 1);
  if (dim == box.extent.size()) {
    out.push_back({std::move(index), std::move(extent)});
    return;
  }
  // A partial first row, whole rows, a partial last row.
  const int64_t row = product(box.extent, dim + 1);
  const int64_t head = begin % row == 0 ? 0 : std::min(count, row - begin % row);
  const auto add_partial = [&](int64_t from, int64_t length) {
    std::vector<int64_t> inside = index;
    inside.push_back(box.offset[dim] + from / row);
    add_boxes(box, std::move(inside), from % row, length, out);
  };
  if (head > 0) add_partial(begin, head);
  const int64_t rows = (count - head) / row, tail = begin + head + rows * row;
  if (rows > 0) {
    Box middle{index, extent};
    middle.offset.push_back(box.offset[dim] + (begin + head) / row);
    middle.extent.push_back(rows);
    for (size_t d = dim + 1; d < box.extent.size(); ++d) {
      middle.offset.push_back(box.offset[d]);
      middle.extent.push_back(box.extent[d]);
    }
    out.push_back(std::move(middle));
  }
  if (tail < begin + count) add_partial(tail, begin + count - tail);
}

}  // namespace

int64_t Box::numel() const {
  return product(extent);
}

Box whole(const std::vector<int64_t>& shape) {
  return {std::vector<int64_t>(shape.size(), 0), shape};
}

std::optional<Box> intersection(const Box& one, const Box& other) {
  Box shared;
  for (size_t d = 0; d < one.offset.size(); ++d) {
    const int64_t begin = std::max(one.offset[d], other.offset[d]);
    const int64_t end = std::min(one.offset[d] + one.extent[d], other.offset[d] + other.extent[d]);
    if (begin >= end) return std::nullopt;
    shared.offset.push_back(begin);
    shared.extent.push_back(end - begin);
  }
  return shared;
}

std::vector<Box> boxes_of_range(const Box& box, int64_t begin, int64_t count) {
  std::vector<Box> boxes;
  add_boxes(box, {}, begin, count, boxes);
  return boxes;
}

at::Tensor view_of(const at::Tensor& values, const Box& held, const Box& part) {
  at::Tensor view = values;
  for (size_t d = 0; d < part.offset.size(); ++d)
    view = view.narrow(static_cast<int64_t>(d), part.offset[d] - held.offset[d], part.extent[d]);
  return view;
}

}  // namespace weft::checkpoint
