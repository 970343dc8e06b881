// Initial values that depend on the seed, the parameter's name and the global index alone, so that every rank
// makes its own slice and all layouts begin alike.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "box/box.hpp"
#include "weft/nn/model.hpp"

namespace weft::nn {

// Writes elements [begin, begin + destination.numel()) of the parameter. Counter-based: Philox 4x32 with 10
// rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011), keyed by seed and name;
// normal values by Box-Muller.
void initialise(const Initial& initial, int64_t seed, std::string_view name, int64_t begin,
                const at::Tensor& destination);

// Writes a box of the parameter, which has `shape`; `destination` has the box's extent, with any strides.
void initialise(const Initial& initial, int64_t seed, std::string_view name,
                const std::vector<int64_t>& shape, const Box& box, const at::Tensor& destination);

}  // namespace weft::nn
