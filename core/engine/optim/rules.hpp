// What the optimizer needs of a rule beyond its update.
#pragma once

#include "weft/optim/rule.hpp"

namespace weft::optim {

// What rules compute in and keep their states in, for values of `dtype`: single precision for half. (PyTorch
// keeps the states in half, where a second moment cannot decay: 0.999 v rounds to v in bf16, and the square
// of a small gradient to 0 in fp16.)
at::ScalarType computing_dtype(at::ScalarType dtype);

// `given` with the rule's defaults for what it lacks. Throws INVALID_ARGUMENT for an option that the rule
// does not have, with the nearest one, and for a value that it does not allow.
Hyper complete(const Rule& rule, Hyper given);

}  // namespace weft::optim
