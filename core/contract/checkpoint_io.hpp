// What a checkpoint format must do: keep tensors whatever the boxes, and lose nothing whatever happens.
#pragma once

#include <string>

#include "contract/checks.hpp"

namespace weft::contract {

// Checks the format of this name in a folder for temporary files. `options` are those that the host passes to
// a save, as a JSON object. Throws INVALID_ARGUMENT for an option that the host has not. Forks.
void check_checkpoint_io(const std::string& name, const std::string& options, const Tell& tell);

}  // namespace weft::contract
