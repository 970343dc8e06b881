// Additive attention masks: 0 where a position may attend to another one, and the lowest finite value of the
// dtype where it may not. The value is finite so that softmax stays defined for a row without any allowed
// position. And what stands in place of a mask in rows of several documents.
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

// Rows that contain several documents, which do not attend to each other, have the begins of their documents
// in place of a mask, (N, 1, 1, T) in int64: for each position the first position of its document. The
// positions of a document follow each other. They are in host memory, also in a State on a device, because
// nn::Attention computes attention of each document by itself. In a CUDA graph they are on the device.

// Returns the document begins of `rows` rows. starts: (1 or rows, T), true where a document begins; the first
// position always begins one. Returns an undefined tensor if every row is a single document.
at::Tensor document_begins(const at::Tensor& starts, int64_t rows);
// Returns true for document begins, false for a mask and for an undefined tensor.
bool are_document_begins(const at::Tensor& mask);
// Returns for each position its number in its document, (N, T) in int64.
at::Tensor positions_in_documents(const at::Tensor& begins);
// Returns the boolean mask of the same attention, (N, 1, T, T), which is true within documents.
at::Tensor document_mask(const at::Tensor& begins);

}  // namespace weft::nn
