#include "box/box.hpp"

#include <algorithm>
#include <numeric>

namespace weft {

namespace {

int64_t product(const std::vector<int64_t>& sizes, size_t from = 0) {
  return std::accumulate(sizes.begin() + static_cast<int64_t>(from), sizes.end(), int64_t{1},
                         std::multiplies<>());
}

// Appends the boxes of a range that lies at one `index` along the first dimensions of `box`.
void add_boxes(const Box& box, std::vector<int64_t> index, int64_t begin, int64_t count,
               std::vector<Box>& out) {
  if (count == 0) return;
  const size_t dim = index.size();
  std::vector<int64_t> extent(dim, 1);
  if (dim == box.extent.size()) {
    out.push_back({std::move(index), std::move(extent)});
    return;
  }
  // Split the range into the end of a row, whole rows, and the beginning of a row.
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

Box Box::whole(const std::vector<int64_t>& shape) {
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

namespace {

using Visit = std::function<void(const Box& box, const at::Tensor& values)>;

// Splits `box`, a box of the part, along the runs of `cut` from dimension `dim` on. Calls `visit` for each
// piece with its place in the whole tensor. `values` has the shape of `box`.
void visit_runs(const Cut& cut, size_t dim, const Box& box, const at::Tensor& values, const Visit& visit) {
  if (dim == cut.dims.size()) return visit(box, values);
  const int64_t first = box.offset[dim], last = first + box.extent[dim];
  int64_t at = 0;  // where the run begins in the part
  for (const Run& run : cut.dims[dim]) {
    const int64_t from = std::max(first, at), to = std::min(last, at + run.count);
    if (from < to) {
      Box moved = box;
      moved.offset[dim] = run.begin + from - at;
      moved.extent[dim] = to - from;
      visit_runs(cut, dim + 1, moved, values.narrow(static_cast<int64_t>(dim), from - first, to - from),
                 visit);
    }
    at += run.count;
  }
}

}  // namespace

void for_each_box(const Cut& cut, int64_t begin, int64_t count, const at::Tensor& values,
                  const Visit& visit) {
  int64_t done = 0;
  for (const Box& local : boxes_of_range(Box::whole(cut.local()), begin, count)) {
    const int64_t elements = local.numel();
    visit_runs(cut, 0, local, values.narrow(0, done, elements).view(local.extent), visit);
    done += elements;
  }
}

}  // namespace weft
