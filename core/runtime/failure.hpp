// What an exception tells a user.
#pragma once

#include <exception>
#include <string>

#include "weft/types.h"

namespace weft {

struct Failure {
  weft_status status = WEFT_INTERNAL;
  std::string text;  // without the stack that libtorch appends
};

// Of an Error its own status and text, of anything else WEFT_INTERNAL. Where memory ran out, whoever found
// it: WEFT_RESOURCE_EXHAUSTED, and what was being done, the bytes that were asked for and those that there
// are, and what to do.
// For the end of a chain of calls: on the way, tables carry status and text.
Failure describe(const std::exception& exception);

}  // namespace weft
