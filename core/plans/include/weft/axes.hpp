// Sets of axes of the mesh and what they mean. This file and mesh.cpp alone know how axes combine.
#pragma once

#include <array>
#include <cstdint>

namespace weft {

// The axes, which are the entries of the list that plugins see (weft/mesh.h says what each is).
namespace axis {
enum : uint32_t {
  kData,
  kReplica,
  kStages,
  kTensor,
  kExperts,
  kTensorRow,
  kTensorColumn,
  kTensorDepth,
  kCount
};
inline constexpr std::array<const char*, kCount> kNames = {
    "data", "replica", "stages", "tensor", "experts", "tensor.row", "tensor.column", "tensor.depth"};
}  // namespace axis

using Axes = uint32_t;  // a bit mask of 1 << axis

// Ranks along these train on different samples, or on different positions of the same samples, so gradients
// are summed over them.
constexpr Axes sample_axes() {
  return 1u << axis::kData | 1u << axis::kReplica | 1u << axis::kExperts;
}
// Ranks along these split the same layers.
constexpr Axes tensor_axes() {
  return 1u << axis::kTensor;
}
// Ranks along these run different units of the same samples.
constexpr Axes stage_axes() {
  return 1u << axis::kStages;
}
// Ranks along these hold different experts.
constexpr Axes expert_axes() {
  return 1u << axis::kExperts;
}
constexpr Axes all_axes() {
  return (1u << axis::kCount) - 1;
}

// Adds the sub-axes of the tensor axis to a set that has TENSOR, which stands for all of them.
constexpr Axes with_sub_axes(Axes axes) {
  constexpr Axes kSubAxes = 1u << axis::kTensorDepth | 1u << axis::kTensorRow | 1u << axis::kTensorColumn;
  return (axes & tensor_axes()) != 0 ? axes | kSubAxes : axes;
}

}  // namespace weft
