// Boxes of tensors: how parts that were cut in different ways meet.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "weft/cut.hpp"

namespace weft {

// The elements from `offset` on, `extent` of them along each dimension. The box of a scalar has no
// dimensions and one element.
struct Box {
  std::vector<int64_t> offset, extent;
  static Box whole(const std::vector<int64_t>& shape);
  int64_t numel() const;
  bool operator==(const Box& other) const = default;
};

// What two boxes of one tensor share; nothing if that is empty.
std::optional<Box> intersection(const Box& one, const Box& other);

// The boxes that cover elements [begin, begin + count) of the flattened `box`, in order: each is a contiguous
// range of it. At most two for each dimension.
std::vector<Box> boxes_of_range(const Box& box, int64_t begin, int64_t count);

// The view of `part` in `values`, which holds the box `held`.
at::Tensor view_of(const at::Tensor& values, const Box& held, const Box& part);

// Divides elements [begin, begin + count) of the flattened part that `cut` leaves of a tensor into boxes of
// the whole tensor. `values` holds those elements, flat; `visit` gets each box with the view of its elements,
// of the box's extent.
void for_each_box(const Cut& cut, int64_t begin, int64_t count, const at::Tensor& values,
                  const std::function<void(const Box& box, const at::Tensor& values)>& visit);

}  // namespace weft
