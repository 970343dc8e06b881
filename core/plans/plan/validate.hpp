// Validates the calls of a policy and makes a plan of them.
#pragma once

#include <string>
#include <vector>

#include "plan/builder.hpp"
#include "plan/plan.hpp"

namespace weft::plan {

// Returns the plan that `recording` describes, without its policy's name and its digest. Adds a text to
// `problems` for each error; the plan is valid only if there are none. The nodes of `model` must be in
// natural order.
Plan validate(const ModelDescription& model, const ParallelSizes& sizes, const Recording& recording,
              std::vector<std::string>& problems);

}  // namespace weft::plan
