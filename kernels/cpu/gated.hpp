// The product of a gated MLP (Shazeer, GLU variants improve transformer, arXiv:2002.05202), in fp32: y =
// activation(gate) up. Backward makes the activation again, so that nothing but gate and up is kept.
#pragma once

#include <cstdint>

#include "formula/gated.hpp"

namespace weft::kernels {

void gated_forward(Gate kind, int64_t count, const float* gate, const float* up, float* y);
// dgate = dy up activation'(gate) and dup = dy activation(gate).
void gated_backward(Gate kind, int64_t count, const float* gate, const float* up, const float* dy,
                    float* dgate, float* dup);

}  // namespace weft::kernels
