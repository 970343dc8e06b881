// Shared by the cross entropy of whole logits and that of logits that are sharded along the classes.
#pragma once

#include <ATen/core/Tensor.h>

#include "cpu/cross_entropy.hpp"

namespace weft::nn {

// Throws INVALID_ARGUMENT unless `labels` has a label for each row of `logits`: 0 to classes - 1, or
// `ignored`.
void check_labels(const at::Tensor& logits, const at::Tensor& labels, int64_t classes, int64_t ignored);

// Returns the normalizers that forward saves as a tensor (rows, 2) of the dtype of the logits.
template <typename T>
kernels::RowNormaliser<T>* normalisers_in(const at::Tensor& pairs) {
  return static_cast<kernels::RowNormaliser<T>*>(pairs.data_ptr());
}

// Returns the gradient of `logits`, a saved variable of the running backward function; it reuses their memory
// if nobody else can read it. `labels` are those that the kernel takes (-1: ignored), `pairs` the
// normalizers, and `gradient` is that of the sum. Throws UNIMPLEMENTED for create_graph.
at::Tensor cross_entropy_gradient(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& pairs,
                                  const at::Tensor& gradient);

}  // namespace weft::nn
