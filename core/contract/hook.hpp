// What a hook must do: requests that have an effect, states that are restored, and the same end on every
// rank.
#pragma once

#include <string>

#include "contract/checks.hpp"

namespace weft::contract {

// Checks the installed hook `name` with these options, the text of a JSON object, in trainings of the tiny
// model. Throws what the hook is refused with.
void check_hook(const std::string& name, const std::string& options, const Tell& tell);

}  // namespace weft::contract
