// The product of a gated MLP whose activation is SiLU (Shazeer, GLU variants improve transformer,
// arXiv:2002.05202), in fp32: y = gate sigmoid(gate) up. Backward makes the sigmoid again, so that nothing
// but gate and up is kept.
#pragma once

#include <cstdint>

namespace weft::kernels {

void silu_gated_forward(int64_t count, const float* gate, const float* up, float* y);
// dgate = dy up (s + gate s (1 - s)) and dup = dy gate s, with s = sigmoid(gate).
void silu_gated_backward(int64_t count, const float* gate, const float* up, const float* dy, float* dgate,
                         float* dup);

}  // namespace weft::kernels
