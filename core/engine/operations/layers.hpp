// The halves of the operations that fill the slots of layers.
#pragma once

#include "weft/operation.hpp"

namespace weft::operations {

// Returns the function that installs the operation, null if it has none.
plan::Operation::Install installer(const plan::Operation& operation);

}  // namespace weft::operations
