// A tensor that communication made, as a result of the graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace weft::parallel {

// The memory of `values` as a function of `input`: `gradient` makes the gradient of `input` out of that of
// the result. Nothing is recorded where autograd records nothing.
at::Tensor with_gradient(const at::Tensor& values, const at::Tensor& input,
                         std::function<at::Tensor(const at::Tensor& gradient)> gradient);

}  // namespace weft::parallel
