// Operations on sets of axes. Other folders use these, and no bits of the mask.
#pragma once

#include "weft/axes.hpp"

namespace weft {

// Returns the axes of `axes` that are not in `others`, where TENSOR stands for its sub-axes too.
constexpr Axes without(Axes axes, Axes others) {
  return axes & ~with_sub_axes(others);
}
// Returns the axes that are in one of the sets.
constexpr Axes joined(Axes axes, Axes others) {
  return axes | others;
}
// Returns the axes of `axes` that are in `others`, where TENSOR stands for its sub-axes too.
constexpr Axes common(Axes axes, Axes others) {
  return axes & with_sub_axes(others);
}
// Returns true if every axis of `axes` is in `others`.
constexpr bool is_within(Axes axes, Axes others) {
  return (axes & ~others) == 0;
}

}  // namespace weft
