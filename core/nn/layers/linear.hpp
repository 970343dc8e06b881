// The matrix product of linear layers and its gradients, for operations that compute with shards of a layer's
// parameters.
#pragma once

#include <memory>

#include "weft/nn/layers.hpp"

namespace weft {
class DeferredGradients;
}

namespace weft::nn {

// Returns true if the layer computes linear() of `x` and its own parameters in one node of the graph: no plan
// has replaced its operation, its backward is not split, and its result has no padding (padded_rows.hpp).
bool is_plain(const Linear& layer, const at::Tensor& x);

// Return the gradients of linear() with respect to its input, weight and bias. `dy` is the gradient of its
// result.
at::Tensor linear_input_gradient(const at::Tensor& dy, const at::Tensor& weight, Linear::Layout layout);
at::Tensor linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x, Linear::Layout layout);
at::Tensor linear_bias_gradient(const at::Tensor& dy);

// Returns the object to which the backward of a linear layer that runs now defers the gradients of its weight
// and bias, for operations with a backward of their own; linear() does this itself. Returns null if they
// cannot be deferred: backward is not split, the weight is frozen, or DeferredGradients::can_defer is false.
std::shared_ptr<DeferredGradients> deferred_for(const at::Tensor& weight, const at::Tensor& bias);

}  // namespace weft::nn
