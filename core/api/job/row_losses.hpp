// The loss of each sample by itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "training/training.hpp"

namespace weft {

// Which rows of a global batch this rank has.
struct OwnRows {
  int64_t first = 0, count = 0;  // of this rank
  int64_t all = 0;               // of the ranks together
  int64_t most = 0;              // of the rank with most of them
};

// Returns the loss of each sample of a global batch, of the term whose exponential is the model's perplexity:
// a tensor (all, 2) of fp64 on the host, with the sum over the labels of the sample and their number, the
// same on every rank. `batch` has this rank's samples, or one stand-in. Each sample runs forward by itself,
// so that its loss does not depend on the others. The model is in evaluation mode meanwhile. Collective.
at::Tensor row_losses(Training& training, const Batch& batch, const OwnRows& rows);

}  // namespace weft
