// Operators as operations of libtorch, for devices without a kernel, and for types that the host's kernels do
// not take.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace weft {

// operators::MergeAttention. Host memory uses it, too: libtorch's vectorised exponential and logarithm are
// faster than a loop over kernels::merge_weights, and round in another way.
void merge_by_operations(at::Tensor out, at::Tensor log_sum_exp, const at::Tensor& part,
                         const at::Tensor& part_log_sum_exp);

// operators::Gated, GatedBackward and Rotate. Half precision is rounded after each operation.
at::Tensor gated_by_operations(const at::Tensor& gate, const at::Tensor& up, int64_t kind);
std::tuple<at::Tensor, at::Tensor> gated_backward_by_operations(const at::Tensor& dy, const at::Tensor& gate,
                                                                const at::Tensor& up, int64_t kind);
at::Tensor rotate_by_operations(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
                                bool back);

}  // namespace weft
