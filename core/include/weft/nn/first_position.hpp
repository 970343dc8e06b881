// Classifiers read the first position of a sequence alone: a class token, or [CLS]. The last block of such a
// model computes no other one: all are keys and values of its attention, but only the first one asks, and
// only the first one passes through the rest of the block. Logits, loss and gradients stay the same, and 10
// of 12 products of that block fall away, forward and backward.
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
