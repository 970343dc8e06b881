// Operations of libraries of tier stable (weft/operation.h) as a plan sees operations.
#pragma once

#include <string>
#include <string_view>

#include "weft/operation.h"
#include "weft/operation.hpp"

namespace weft {

// Returns the operation of a table, which must live as long as the process. Throws FAILED_PRECONDITION naming
// the library if the table is wrong.
plan::Operation stable_operation(const weft_operation& table, std::string_view id,
                                 const std::string& library);

}  // namespace weft
