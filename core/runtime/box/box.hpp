// Boxes: contiguous blocks of a tensor. Two layouts of one tensor meet where their boxes intersect.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "weft/cut.hpp"

namespace weft {

// A block of a tensor: `extent` indices from `offset` on, along each dimension. The box of a scalar has no
// dimensions and one element.
struct Box {
  std::vector<int64_t> offset, extent;
  static Box whole(const std::vector<int64_t>& shape);
  int64_t numel() const;
  bool operator==(const Box& other) const = default;
};

// Returns the box that two boxes of one tensor share, or nothing if they share no element.
std::optional<Box> intersection(const Box& one, const Box& other);

// Splits elements [begin, begin + count) of the flattened `box` into boxes, in order. Each is a contiguous
// range of the flattened `box`; there are at most two for each dimension.
std::vector<Box> boxes_of_range(const Box& box, int64_t begin, int64_t count);

// Returns the view of the box `part` in `values`, which holds the elements of the box `held`.
at::Tensor view_of(const at::Tensor& values, const Box& held, const Box& part);

// Calls `visit` for each box of the whole tensor that holds some of the elements [begin, begin + count) of a
// flattened part; `cut` says which part. `values` has these elements, flat. `visit` gets the box and the view
// of its elements in `values`, which has the shape of the box.
void for_each_box(const Cut& cut, int64_t begin, int64_t count, const at::Tensor& values,
                  const std::function<void(const Box& box, const at::Tensor& values)>& visit);

}  // namespace weft
