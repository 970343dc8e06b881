// The functions that install operations in the slots of layers. They need libtorch; the declarations do not.
#pragma once

#include "weft/operation.hpp"

namespace weft::operations {

// Returns the function that installs the operation, null if it has none.
plan::Operation::Install installer(const plan::Operation& operation);

}  // namespace weft::operations
