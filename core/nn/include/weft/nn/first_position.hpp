// For classifiers, whose head reads only the first position of a sequence (a class token or [CLS]): the last
// block computes keys and values of all positions, but the query, the attention output and the MLP of the
// first position alone. Logits, loss and gradients stay the same. Of the block's matrix products 10 of 12 are
// left out, in forward and backward.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft::nn {

// Returns true if the unit that this thread runs has all positions of its model's only sequence. Returns
// false outside of a unit.
bool has_all_positions();

// Returns the first position. x: (N, T, C) -> (N, 1, C).
at::Tensor first_position(const at::Tensor& x);

// Returns `first` with zeros for the other positions, which nobody reads. first: (N, 1, C) -> (N, T, C).
at::Tensor with_unread_positions(const at::Tensor& first, int64_t positions);

}  // namespace weft::nn
