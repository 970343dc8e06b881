// Enters and leaves a tensor-parallel region, in which each rank of the group computes its own part of a
// layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/world.hpp"

namespace weft::parallel {

// Enters a region: returns `x`. In backward the gradients of the ranks are summed (one all-reduce).
at::Tensor enter(const at::Tensor& x, const Communicator& ranks);

// Leaves a region: returns the sum of `partial` over the ranks (one all-reduce). In backward every rank
// passes its gradient on unchanged. Consumes `partial`: the result is written into its memory.
at::Tensor leave(const at::Tensor& partial, const Communicator& ranks);

// All-gathers the ranks' parts along the last dimension, in the order of ranks. `sizes` has the extent of
// each rank's part; they may differ. In backward each rank takes the slice that belongs to its part.
at::Tensor gather_last(const at::Tensor& part, const std::vector<int64_t>& sizes, const Communicator& ranks);

}  // namespace weft::parallel
