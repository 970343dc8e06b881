// The argument of backward operators that add a gradient from elsewhere to the one that they compute.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace weft::nn {

// Returns `gradient`, contiguous, or nothing if it is undefined.
inline std::optional<at::Tensor> added_gradient(const at::Tensor& gradient) {
  return gradient.defined() ? std::optional(gradient.contiguous()) : std::nullopt;
}

}  // namespace weft::nn
