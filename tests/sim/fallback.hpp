// Runs an operator of the device with the kernel of the CPU.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

namespace weft::sim {

// Runs the CPU's kernel over the memory of the arguments, as one launch on the current stream. Tensors in
// host memory are refused, as a device refuses them, except numbers and lists of indices; so are generators
// of other devices.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace weft::sim
