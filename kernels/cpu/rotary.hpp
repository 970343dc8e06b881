// Rotary positions (Su et al., RoFormer, arXiv:2104.09864) in fp32: channel i of a head and channel i + R / 2
// are turned by the angle of its position.
#pragma once

#include "formula/rotary.hpp"

namespace weft::kernels {

// With a = x[i], b = x[i + R / 2], c and s of the tables: y[i] = a c - b s, y[i + R / 2] = b c + a s, and
// y[i] = x[i] of the channels that do not turn. x, y: (B, T, H, D) contiguous; y may be x. `back` turns the
// other way, which is the gradient.
void rotate(const RotaryShape& shape, const float* x, const float* cosine, const float* sine, bool back,
            float* y);

}  // namespace weft::kernels
