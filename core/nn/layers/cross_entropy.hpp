// Shared by the cross entropy of whole logits and that of logits that are sharded along the classes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft::nn {

// Throws INVALID_ARGUMENT unless `labels` has a label for each row of `logits`: 0 to classes - 1, or
// `ignored`. Labels on a device are checked there: a wrong one ends the process when the host waits next.
void check_labels(const at::Tensor& logits, const at::Tensor& labels, int64_t classes, int64_t ignored);

// Returns `logits` as the operators of cross entropy take them: rows that are contiguous, and on a device all
// apart by stride(-2). Copies what is not so.
at::Tensor logits_by_row(const at::Tensor& logits);

// Returns the gradient of `logits`, a saved variable of the running backward function; it reuses their memory
// if nobody else can read it. `labels` and `normalisers` are those of operators::CrossEntropy or
// operators::CrossEntropyFinish, and `gradient` is that of the sum. Throws UNIMPLEMENTED for create_graph.
at::Tensor cross_entropy_gradient(const at::Tensor& logits, const at::Tensor& labels,
                                  const at::Tensor& normalisers, const at::Tensor& gradient);

}  // namespace weft::nn
