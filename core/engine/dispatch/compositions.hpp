// Operators as operations of libtorch, for devices without a kernel.
#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

// operators::MergeAttention. Host memory uses it, too: libtorch's vectorised exponential and logarithm are
// faster than a loop over kernels::merge_weights, and round in another way.
void merge_by_operations(at::Tensor out, at::Tensor log_sum_exp, const at::Tensor& part,
                         const at::Tensor& part_log_sum_exp);

}  // namespace weft
