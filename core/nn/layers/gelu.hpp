// Which activations are GELU.
#pragma once

#include <optional>

#include "formula/gelu.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

ActivationFunction gelu(kernels::Gelu kind);
// Returns nothing for another activation.
std::optional<kernels::Gelu> gelu_kind(ActivationFunction function);

}  // namespace weft::nn
