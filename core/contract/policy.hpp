// What a shard policy must do, in numbers: a small model that its plan splits across ranks must have the
// gradients, values and losses of one rank.
#pragma once

#include <string>

#include "contract/checks.hpp"

namespace weft::contract {

// Checks the installed policy `name` with the model of `config`, the path of a config.json, or, if that is
// empty, with every class of the installed family of its name.
void check_policy(const std::string& name, const std::string& config, const Tell& tell);

}  // namespace weft::contract
