// What an operation must do, in numbers: its gradients are derivatives of the loss, on several ranks as on
// one.
#pragma once

#include <string>

#include "contract/checks.hpp"

namespace weft::contract {

// Checks the operations "name/1", "name/2" and so on that installed libraries have, with their default
// attributes, in a small model of a shipped class, or in that of `config`, the path of a config.json. One
// that adds parameters is an adapter; another is named by a policy.
void check_operation(const std::string& name, const std::string& config, const Tell& tell);

}  // namespace weft::contract
