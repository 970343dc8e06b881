// Connects tensors that communication produced to the autograd graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace weft::parallel {

// Returns a tensor that shares the memory of `values` and that autograd differentiates as a function of
// `input`: `gradient` maps the gradient of the result to that of `input`. Records nothing if grad mode is off
// or `input` does not require grad.
at::Tensor with_gradient(const at::Tensor& values, const at::Tensor& input,
                         std::function<at::Tensor(const at::Tensor& gradient)> gradient);

}  // namespace weft::parallel
