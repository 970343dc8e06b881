// What a model library must do, in numbers: the gradient of every parameter is the derivative of the loss,
// and several ranks compute it, too.
#pragma once

#include <optional>
#include <string>

#include "contract/one_rank.hpp"

namespace weft::contract {

// Checks the installed class `name`, made small, with the configuration of `config`, the path of a
// config.json, or, if that is empty, with the defaults of its family.
void check_model(const std::string& name, const std::string& config, const Tell& tell);

// Returns the first sample that the model has a loss for. `problem` is why it refused the one before.
std::optional<Sample> find_sample(const OpenModel& open, std::string& problem);

// Compares, in fp64, the gradients of the model that `open` returns with central differences of its loss
// along one random direction for each parameter, after an update. With `options` the default strategy trains
// it. Throws what the model says of a sample that it refuses.
void check_gradients(const OpenModel& open, const Sample& sample, Findings& findings,
                     const nlohmann::json& options = nlohmann::json::object());

// Trains the samples on two ranks that share them, and in micro-batches with recomputed activations, and
// compares with one rank.
void check_on_ranks(const OpenModel& open, const Sample& sample, const Tell& tell);

}  // namespace weft::contract
