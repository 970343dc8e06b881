// Boxes of tensors: how parts that were cut in different ways meet.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace weft::checkpoint {

// The elements from `offset` on, `extent` of them along each dimension. The box of a scalar has no
// dimensions and one element.
struct Box {
  std::vector<int64_t> offset, extent;
  int64_t numel() const;
  bool operator==(const Box& other) const = default;
};

Box whole(const std::vector<int64_t>& shape);

// What two boxes of one tensor share; nothing if that is empty.
std::optional<Box> intersection(const Box& one, const Box& other);

// The boxes that cover elements [begin, begin + count) of the flattened `box`, in order: each is a contiguous
// range of it. At most two for each dimension.
std::vector<Box> boxes_of_range(const Box& box, int64_t begin, int64_t count);

// The view of `part` in `values`, which holds the box `held`.
at::Tensor view_of(const at::Tensor& values, const Box& held, const Box& part);

}  // namespace weft::checkpoint
