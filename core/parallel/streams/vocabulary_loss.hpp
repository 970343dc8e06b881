// Cross entropy and accuracy of logits that are sharded along the vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/world.hpp"

namespace weft::parallel {

// Returns nn::cross_entropy_sum of the whole logits without gathering them. `logits` (..., C of this rank)
// are the classes `begin`, `begin` + 1, ... of `classes`; `labels` (...) int64 are the same on every rank.
// The result is the same on every rank. Two all-reduces per call: the largest logit of each row; then its sum
// of exponentials and the logit of its label. Backward communicates nothing. Throws INVALID_ARGUMENT if the
// labels do not fit the logits.
at::Tensor vocabulary_cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored,
                                        int64_t begin, int64_t classes, const Communicator& ranks);

// Returns how many labels have the largest logit of their row, the first one of several; `ignored` ones do
// not count. Takes the same logits and labels. The result is the same on every rank. Two all-reduces per call
// of one number per row.
double vocabulary_count_right(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored,
                              int64_t begin, const Communicator& ranks);

}  // namespace weft::parallel
