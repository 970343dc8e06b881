// What a library of objectives must do, in numbers: sums over labels, of which parts make the whole, whose
// gradients are their derivatives, and which several ranks compute, too.
#pragma once

#include <string>

#include "contract/checks.hpp"

namespace weft::contract {

// Checks the objective of this name with a small model: that of the config.json `model`, or the first
// installed class with labels that it takes. `options` is a JSON object. `data`, if it is not empty, is a
// .safetensors file of samples for the model as its configuration is. Throws INVALID_ARGUMENT for options
// that the objective does not have.
void check_objective(const std::string& name, const std::string& options, const std::string& data,
                     const std::string& model, const Tell& tell);

}  // namespace weft::contract
