// Sets of axes of the mesh and what they mean. This file and mesh.cpp alone know how axes combine.
#pragma once

#include <weft/types.h>

#include <cstdint>

namespace weft {

using Axes = uint32_t;  // a bit mask of 1 << WEFT_AXIS_*

// Ranks along these train on different samples, or on different positions of the same samples, so gradients
// are summed over them.
constexpr Axes sample_axes() {
  return 1u << WEFT_AXIS_DATA | 1u << WEFT_AXIS_REPLICA | 1u << WEFT_AXIS_EXPERT;
}
// Ranks along these split the same layers.
constexpr Axes tensor_axes() {
  return 1u << WEFT_AXIS_TENSOR;
}
// Ranks along these run different units of the same samples.
constexpr Axes stage_axes() {
  return 1u << WEFT_AXIS_PIPELINE;
}
// Ranks along these hold different experts.
constexpr Axes expert_axes() {
  return 1u << WEFT_AXIS_EXPERT;
}
constexpr Axes all_axes() {
  return (1u << WEFT_AXES) - 1;
}

// Adds the sub-axes of the tensor axis to a set that has TENSOR, which stands for all of them.
constexpr Axes with_sub_axes(Axes axes) {
  constexpr Axes kSubAxes =
      1u << WEFT_AXIS_TENSOR_DEPTH | 1u << WEFT_AXIS_TENSOR_ROW | 1u << WEFT_AXIS_TENSOR_COLUMN;
  return (axes & tensor_axes()) != 0 ? axes | kSubAxes : axes;
}

}  // namespace weft
