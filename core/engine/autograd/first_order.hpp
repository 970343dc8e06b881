// For backward formulas that are not made of differentiable operations.
#pragma once

#include <c10/core/GradMode.h>

#include "base/text.hpp"
#include "weft/error.hpp"

namespace weft {

// Throws UNIMPLEMENTED in the backward of `what` if the graph of its gradients is asked for.
inline void require_first_order(const char* what) {
  if (c10::GradMode::is_enabled())
    fail(WEFT_UNIMPLEMENTED, "{}: a gradient of its gradient was asked for (create_graph), which it has not",
         what);
}

}  // namespace weft
