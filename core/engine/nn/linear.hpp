// The product behind every linear layer, for operations that compute with other tensors than the layer's own.
#pragma once

#include "weft/nn/layers.hpp"

namespace weft::nn {

// As Linear of the layout; `bias` may be undefined. The result is no view: who comes next may write over it.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  Linear::Layout layout);

// Its gradients, of the result's gradient `dy`.
at::Tensor linear_input_gradient(const at::Tensor& dy, const at::Tensor& weight, Linear::Layout layout);
at::Tensor linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x, Linear::Layout layout);
at::Tensor linear_bias_gradient(const at::Tensor& dy);

}  // namespace weft::nn
