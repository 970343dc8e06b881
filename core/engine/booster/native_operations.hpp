// Operations that libraries provide (factory "weft.factory.operation/1").
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace weft {

// Lets plans find the operations of installed libraries: the one that provides "vendor.name" is asked for
// "vendor.name/revision".
void find_native_operations();

// The identities of the libraries whose operations the plan names, for ranks to compare; empty if there are
// none.
std::string operation_libraries(const plan::Plan& plan);

}  // namespace weft
