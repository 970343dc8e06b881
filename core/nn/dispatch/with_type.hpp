// Selects the C++ type of a kernel by the dtype of a tensor.
#pragma once

#include <c10/core/ScalarType.h>

namespace weft {

// Returns true for fp64, fp32, fp16 and bf16.
inline bool has_type(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || at::isReducedFloatingType(type);
}

// Calls `f` with a value of the C++ type of `type`, for which has_type() must be true.
template <class F>
void with_type(at::ScalarType type, const F& f) {
  if (type == at::kFloat) return f(float{});
  if (type == at::kDouble) return f(double{});
  if (type == at::kHalf) return f(c10::Half{});
  f(c10::BFloat16{});
}

}  // namespace weft
