// The rules of devices, by what they are about. Each check_ function runs on a rank whose device is the one
// to check, and looks at its rules one after the other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "contract/checks.hpp"
#include "device/device.hpp"
#include "weft/world.hpp"

namespace weft::contract {

using TensorList = std::vector<at::Tensor>;

// Memory: copies of every type and form, conversions, resized storages, what is counted as in use.
void check_memory(const World& world, Findings& findings);
// The limit of memory, which stays in the process.
void check_memory_limit(const World& world, Findings& findings);
// Streams, events, waits of the host, page-locked memory.
void check_streams(const World& world, Findings& findings);
// Generators.
void check_random(const World& world, Findings& findings);
// What layers compute with: matrix products, autocast, TF32.
void check_computing(const World& world, Findings& findings);
// Operators of weft/device_operators.hpp: of layers and losses, and of optimizers.
void check_layer_operators(const World& world, Findings& findings);
void check_update_operators(const World& world, Findings& findings);
// Captured work.
void check_graphs(const World& world, Findings& findings);
// Collectives and messages of tensors on the device. Collective.
void check_collectives(const World& world, Findings& findings);
// Updates of the tiny model, which are those of one rank on the CPU. Collective.
void check_training(const World& world, Findings& findings);

// Returns values in host memory, the same for the same seed: normally distributed ones, integers from -100 to
// 100 (from 0 for unsigned ones), or truth values.
at::Tensor host_values(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat, uint64_t seed = 1);
// Returns a copy on the device.
at::Tensor there(const at::Tensor& tensor);
TensorList there(const TensorList& tensors);
// Returns options of tensors on the device.
at::TensorOptions on_it(at::ScalarType dtype = at::kFloat);

// Returns the first element of `found`, on the device or the host, that has other bits than in `expected`, or
// "".
std::string exact_difference(const at::Tensor& found, const at::Tensor& expected);
// Returns `problem`, if there is one, behind what it was found in: "of float: ...".
std::string within(const std::string& what, const std::string& problem);

}  // namespace weft::contract
