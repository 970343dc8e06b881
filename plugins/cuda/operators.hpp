// Weft's operators (weft/device_operators.hpp) by the kernels of kernels/cuda.
#pragma once

namespace torch {
class Library;
}

namespace weft::cuda {

// Registers them with libtorch; more calls do nothing. The GPUs must have compute capability 8.0 or higher,
// for which the kernels are compiled.
void register_operators();

// Register those of optimizers with `library`. Called by register_operators().
void implement_updates(torch::Library& library);
void implement_factored_updates(torch::Library& library);

}  // namespace weft::cuda
