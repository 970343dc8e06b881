// The product of a gated MLP as on the CPU (cpu/gated.hpp): y = activation(gate) up. T: float, c10::BFloat16
// or c10::Half, computed in fp32 and rounded once.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"
#include "formula/gated.hpp"

namespace weft::kernels::cuda {

// y may be gate or up.
template <class T>
void gated_forward(Gate kind, int64_t count, const T* gate, const T* up, T* y, Stream stream);

// dgate = dy up activation'(gate) and dup = dy activation(gate). Each may be one of the inputs.
template <class T>
void gated_backward(Gate kind, int64_t count, const T* gate, const T* up, const T* dy, T* dgate, T* dup,
                    Stream stream);

}  // namespace weft::kernels::cuda
