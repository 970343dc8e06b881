// Attention masks as units pass them on: additive, 0 where a position may attend to another and the lowest
// number of the type where it may not; finite, since a row of nothing else must stay defined.
#pragma once

#include "weft/nn/batch_fields.hpp"

namespace weft::nn {

// `allowed`: boolean, of any shape -> of the same shape.
at::Tensor additive_mask(const at::Tensor& allowed, at::ScalarType dtype);

// The field `name`, 1 (attend) or 0 (padding), of the shape `ids` or that with all but the last dimension
// flattened -> (N, 1, 1, T). Undefined where nothing is masked or no such field is: attention is faster
// without.
at::Tensor padding_mask(const BatchFields& batch, std::string_view name, at::IntArrayRef ids,
                        at::ScalarType dtype);

// Several sequences in one row, each with positions that count up by one: none attends to another, as in
// Hugging Face's find_packed_sequence_indices. positions: (1, T) or (rows, T) -> (rows, 1, T, T). Undefined
// where every row is one sequence.
at::Tensor packing_mask(const at::Tensor& positions, int64_t rows, at::ScalarType dtype);

}  // namespace weft::nn
