// A check for backward functions that cannot be differentiated again.
#pragma once

#include <c10/core/GradMode.h>

#include "base/text.hpp"
#include "weft/error.hpp"

namespace weft {

// Throws UNIMPLEMENTED, naming `what`, if backward was called with create_graph. Call it at the start of a
// backward function.
inline void require_first_order(const char* what) {
  if (c10::GradMode::is_enabled())
    fail(WEFT_UNIMPLEMENTED,
         "{}: backward was called with create_graph, but this operation has no second derivative; leave "
         "create_graph false",
         what);
}

}  // namespace weft
