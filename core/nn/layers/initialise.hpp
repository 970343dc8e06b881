// Initial values of parameters. They depend on the seed, the parameter's name and the global index alone, so
// every rank initializes its own shard and all layouts start from the same values.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "box/box.hpp"
#include "weft/nn/model.hpp"

namespace weft::nn {

// Writes the elements [begin, begin + destination.numel()) of the flattened parameter `name`. Random numbers
// come from Philox 4x32 with 10 rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011),
// keyed by seed and name; normal values are made by the Box-Muller transform.
void initialise(const Initial& initial, int64_t seed, std::string_view name, int64_t begin,
                const at::Tensor& destination);

// Writes the elements of `box` of a parameter of this shape. `destination` has the box's extent and any
// strides. Throws INVALID_ARGUMENT for values of Initial::of_layer, which need a layer
// (training/initial_values.hpp).
void initialise(const Initial& initial, int64_t seed, std::string_view name,
                const std::vector<int64_t>& shape, const Box& box, const at::Tensor& destination);

}  // namespace weft::nn
