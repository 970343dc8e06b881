// Dtypes and options of update rules.
#pragma once

#include "weft/optim/rule.hpp"

namespace weft::optim {

// Returns the dtype in which rules compute and keep their states for values of `dtype`: fp32 for half
// precision. (PyTorch keeps the states in half precision, where a second moment cannot decay: 0.999 v rounds
// to v in bf16, and the square of a small gradient to 0 in fp16.)
at::ScalarType computing_dtype(at::ScalarType dtype);

// Returns `given` with the rule's defaults for options that it lacks. Throws INVALID_ARGUMENT for an unknown
// option, with the nearest name, and for a value that the rule does not allow.
Hyper complete(const Rule& rule, Hyper given);
// Throws INVALID_ARGUMENT naming the rule and the option `name` unless `value` is finite.
void require_finite(const Rule& rule, const std::string& name, double value);

}  // namespace weft::optim
