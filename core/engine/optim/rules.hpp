// What the optimizer needs of a rule beyond its update.
#pragma once

#include "weft/optim/rule.hpp"

namespace weft::optim {

// `given` with the rule's defaults for what it lacks. Throws INVALID_ARGUMENT for an option that the rule
// does not have, with the nearest one, and for a value that it does not allow.
Hyper complete(const Rule& rule, Hyper given);

}  // namespace weft::optim
