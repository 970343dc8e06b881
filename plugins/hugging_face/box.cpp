#include "box.hpp"

#include <algorithm>

#include "text.hpp"

namespace weft::hugging_face {
namespace {

bool is_empty(const Box& box) {
  return std::find(box.extent.begin(), box.extent.end(), 0) != box.extent.end();
}

// Appends the boxes of `whole` outside `cut` to `rest`: for each dimension the box before and the box behind.
void subtract(Box whole, const Box& cut, std::vector<Box>& rest) {
  for (std::size_t dim = 0; dim < whole.extent.size(); ++dim) {
    const int64_t begin = std::max(whole.offset[dim], cut.offset[dim]);
    const int64_t end = std::min(whole.offset[dim] + whole.extent[dim], cut.offset[dim] + cut.extent[dim]);
    if (begin >= end) {
      rest.push_back(std::move(whole));
      return;
    }
  }
  for (std::size_t dim = 0; dim < whole.extent.size(); ++dim) {
    const int64_t whole_end = whole.offset[dim] + whole.extent[dim];
    const int64_t begin = std::max(whole.offset[dim], cut.offset[dim]);
    const int64_t end = std::min(whole_end, cut.offset[dim] + cut.extent[dim]);
    if (whole.offset[dim] < begin) {
      rest.push_back(whole);
      rest.back().extent[dim] = begin - whole.offset[dim];
    }
    if (end < whole_end) {
      rest.push_back(whole);
      rest.back().offset[dim] = end;
      rest.back().extent[dim] = whole_end - end;
    }
    whole.offset[dim] = begin;
    whole.extent[dim] = end - begin;
  }
}

}  // namespace

Box checked_box(const TensorEntry& entry, const int64_t* offset, const int64_t* extent,
                uint64_t given_bytes) {
  const std::size_t ndim = entry.shape.size();
  if ((offset == nullptr) != (extent == nullptr)) {
    fail(WEFT_INVALID_ARGUMENT, "tensor ", in_quotes(entry.name),
         ": only one of offset and extent is given; give both, or neither for the whole tensor");
  }
  Box box;
  if (offset == nullptr) {
    box.offset.assign(ndim, 0);
    box.extent = entry.shape;
  } else {
    box.offset.assign(offset, offset + ndim);
    box.extent.assign(extent, extent + ndim);
  }
  for (std::size_t dim = 0; dim < ndim; ++dim) {
    if (box.offset[dim] < 0 || box.extent[dim] < 0 || box.offset[dim] > entry.shape[dim] ||
        box.extent[dim] > entry.shape[dim] - box.offset[dim]) {
      fail(WEFT_INVALID_ARGUMENT, "tensor ", in_quotes(entry.name), " of shape ", shape_text(entry.shape),
           ": the box ", box_text(box), " leaves it in dimension ", dim);
    }
  }
  uint64_t bytes = 0;
  if (!tensor_bytes(box.extent, entry.type->size_bytes, bytes) || bytes != given_bytes) {
    fail(WEFT_INVALID_ARGUMENT, "tensor ", in_quotes(entry.name), ": the box ", box_text(box), " of ",
         entry.type->name, " takes ", bytes, " bytes, but the buffer has ", given_bytes);
  }
  return box;
}

std::string box_text(const Box& box) {
  return concat("offset ", shape_text(box.offset), " extent ", shape_text(box.extent));
}

Coverage::Coverage(const std::vector<int64_t>& shape) {
  Box whole{std::vector<int64_t>(shape.size(), 0), shape};
  if (!is_empty(whole)) missing_.push_back(std::move(whole));
}

void Coverage::add(const Box& box) {
  if (is_empty(box)) return;
  std::vector<Box> rest;
  for (Box& part : missing_) subtract(std::move(part), box, rest);
  missing_ = std::move(rest);
}

}  // namespace weft::hugging_face
