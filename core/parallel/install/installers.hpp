// The functions that change layers: they install operations in their slots and make transformations. They
// need libtorch; the declarations do not.
#pragma once

#include <string_view>

#include "weft/operation.hpp"

namespace weft::operations {

// Returns the function that installs the operation, null if it has none.
plan::Operation::Install installer(const plan::Operation& operation);

// Returns the function that makes the transformation of this name, null if it has none.
using Transform = void (*)(Site& site);
Transform transformer(std::string_view transformation);

}  // namespace weft::operations
