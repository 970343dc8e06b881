// Attention inside the documents of a row, one after the other, so that its cost is the sum of the squares of
// their lengths and there is no mask of all positions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "cpu/attention.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

// Throws INVALID_ARGUMENT for begins, if they are defined, of another number of rows or positions.
void require_documents_of(const at::Tensor& begins, int64_t rows, int64_t queries, int64_t keys);

// Returns the documents of rows that have these begins (masks.hpp), row by row. `begins` are on the host.
std::vector<kernels::AttentionSpan> document_spans(const at::Tensor& begins);

// Returns true for begins on a device: those of a graph, of which each replay has others, so that a mask
// keeps documents apart.
bool need_document_mask(const at::Tensor& begins);
// Returns `mask`, boolean or additive, which may be undefined, with all other documents masked: additive, in
// the dtype of `like`.
at::Tensor with_document_mask(const at::Tensor& mask, const at::Tensor& begins, const at::Tensor& like);

// Returns the results of `attend` for the queries, keys, values and mask of each document. q: (B, T, H, D), k
// and v: (B, T, G, D); `mask` broadcasts to (B, H, T, T) or is undefined. `attend` gets and returns the same
// for one row: (1, t, H, D) ... -> (1, t, H D).
using AttendDocument = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                const at::Tensor& mask)>;
at::Tensor by_documents(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                        const at::Tensor& begins, const AttendDocument& attend);

// Moves document begins that stand in place of a mask to the options.
void take_documents(at::Tensor& mask, AttentionOptions& options);

}  // namespace weft::nn
