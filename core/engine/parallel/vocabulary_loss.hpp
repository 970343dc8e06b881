// Cross entropy of logits whose classes are split over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/world.hpp"

namespace weft::parallel {

// As nn::cross_entropy_sum of the whole logits, which exist nowhere. `logits`: (..., this rank's classes), of
// which the first has the number `begin` out of `classes`; `labels`: (...) int64, the same on every rank, as
// is the result. Two all-reduces of numbers by row: the largest logit; the sum of exponentials and the
// label's logit. The gradient needs none.
at::Tensor vocabulary_cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored,
                                        int64_t begin, int64_t classes, const Communicator& ranks);

}  // namespace weft::parallel
