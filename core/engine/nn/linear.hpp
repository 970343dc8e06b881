// The product behind every linear layer, for operations that compute with other tensors than the layer's own.
#pragma once

#include "weft/nn/layers.hpp"

namespace weft::nn {

// Computes what the layer makes of `x` with this weight and bias: what its slot `product` says, or linear().
at::Tensor product(const Linear& layer, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& bias);

// The gradients of linear(), of the result's gradient `dy`.
at::Tensor linear_input_gradient(const at::Tensor& dy, const at::Tensor& weight, Linear::Layout layout);
at::Tensor linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x, Linear::Layout layout);
at::Tensor linear_bias_gradient(const at::Tensor& dy);

}  // namespace weft::nn
