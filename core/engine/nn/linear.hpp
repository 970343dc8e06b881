// The product behind every linear layer, for operations that compute with other tensors than the layer's own.
#pragma once

#include "weft/nn/layers.hpp"

namespace weft::nn {

// As Linear of the layout; `bias` may be undefined. The result is no view: who comes next may write over it.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  Linear::Layout layout);

}  // namespace weft::nn
