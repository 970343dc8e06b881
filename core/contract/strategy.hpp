// What a strategy must do, in numbers: a tiny model trained on several ranks must have the gradients, values
// and losses that one rank has without a strategy.
#pragma once

#include <string>

#include "contract/checks.hpp"

namespace weft::contract {

// Checks the installed strategy `name` with `options`, a JSON object of its own options.
void check_strategy(const std::string& name, const std::string& options, const Tell& tell);

}  // namespace weft::contract
