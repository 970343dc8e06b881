// Finds operations that plugins provide (factory "weft.factory.operation/1").
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace weft {

// Registers a lookup, so that a plan can name operations of installed plugins. The plugin that provides
// "vendor.name" is asked for "vendor.name/revision".
void find_library_operations();

// Returns the identities of the plugins whose operations the plan names, which ranks compare. Empty if there
// are none.
std::string operation_libraries(const plan::Plan& plan);

}  // namespace weft
