// What label smoothing adds to a cross entropy. With smoothing s and K classes, the cross entropy with
// (1 - s) of the label and s / K of every class is the usual one, plus s times the logit of the label less
// the mean of all logits (Szegedy et al. 2016, section 7): it is linear in the logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {
class Communicator;
}

namespace weft::nn {

// Returns the smoothing of the forward that runs, 0 in evaluations.
double label_smoothing();

// Returns the sum over the rows that count of the logit of the label less the mean of all logits. `logits`
// (..., C) are those of this rank's classes, from `begin` on, out of `classes`; `labels` (...) are of all
// classes, and `ignored` does not count. `ranks` have the other classes, null if this rank has all. The
// gradient is that of this rank's logits.
at::Tensor label_less_mean(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored, int64_t begin,
                           int64_t classes, const Communicator* ranks = nullptr);

}  // namespace weft::nn
