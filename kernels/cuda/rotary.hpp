// Rotary positions as on the CPU (cpu/rotary.hpp): channel i of a head and channel i + R / 2 are turned by
// the angle of its position. T: float, c10::BFloat16 or c10::Half, the tables too, computed in fp32 and
// rounded once.
#pragma once

#include "cuda/stream.hpp"
#include "formula/rotary.hpp"

namespace weft::kernels::cuda {

// With a = x[i], b = x[i + R / 2], c and s of the tables: y[i] = a c - b s, y[i + R / 2] = b c + a s, and
// y[i] = x[i] of the channels that do not turn. x, y: (B, T, H, D) contiguous; y may be x. `back` turns the
// other way, which is the gradient.
template <class T>
void rotate(const RotaryShape& shape, const T* x, const T* cosine, const T* sine, bool back, T* y,
            Stream stream);

}  // namespace weft::kernels::cuda
