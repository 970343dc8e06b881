// What a model library must do, in numbers: the gradient of every parameter is the derivative of the loss.
#pragma once

#include <functional>
#include <string>

#include "contract/small_model.hpp"

namespace weft::contract {

// Checks the installed class `name`, made small, with the configuration of `config`, the path of a
// config.json, or, if that is empty, with the defaults of its family.
void check_model(const std::string& name, const std::string& config, const Tell& tell);

// Compares, in fp64, the gradients of the model that `open` returns with central differences of its loss
// along one random direction for each parameter. Throws what the model says of a sample that it refuses.
void check_gradients(const std::function<Model()>& open, const Sample& sample, Findings& findings);

}  // namespace weft::contract
