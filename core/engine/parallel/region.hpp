// The borders of a tensor-parallel region: inside it every rank of the group computes another part.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/world.hpp"

namespace weft::parallel {

// Into a region: the same tensor; its gradient is the sum of what the ranks' parts give (one all-reduce).
at::Tensor enter(const at::Tensor& x, const Communicator& ranks);

// Out of a region: the sum of the ranks' partial results (one all-reduce, over the memory of `partial`, which
// nobody else may need); the gradient is the same on every rank.
at::Tensor leave(const at::Tensor& partial, const Communicator& ranks);

// Parts along the last dimension, of any sizes, side by side in the order of ranks; the gradient of this
// rank's part is its slice. `sizes`: by rank.
at::Tensor gather_last(const at::Tensor& part, const std::vector<int64_t>& sizes, const Communicator& ranks);

}  // namespace weft::parallel
