// Additive attention masks: 0 where a position may attend to another one, and the lowest finite value of the
// dtype where it may not. The value is finite so that softmax stays defined for a row without any allowed
// position.
#pragma once

#include "weft/nn/batch_fields.hpp"

namespace weft::nn {

// Returns the additive mask of a boolean tensor of any shape.
at::Tensor additive_mask(const at::Tensor& allowed, at::ScalarType dtype);

// Returns the mask (N, 1, 1, T) of the field `name`, whose values are 1 (attend) or 0 (padding) and whose
// shape is `ids`, or `ids` with all dimensions but the last flattened. Returns an undefined tensor if the
// batch has no such field or nothing is masked, because attention is faster without a mask.
at::Tensor padding_mask(const BatchFields& batch, std::string_view name, at::IntArrayRef ids,
                        at::ScalarType dtype);

// Returns the mask (rows, 1, T, T) of rows that contain several packed sequences, which do not attend to each
// other; a sequence begins wherever the position is not the previous one plus one, as in Hugging Face's
// find_packed_sequence_indices. positions: (1, T) or (rows, T). Returns an undefined tensor if every row is a
// single sequence.
at::Tensor packing_mask(const at::Tensor& positions, int64_t rows, at::ScalarType dtype);

}  // namespace weft::nn
