// From what a policy asked for to a plan, or to all that is wrong with it.
#pragma once

#include <string>
#include <vector>

#include "plan/builder.hpp"
#include "plan/plan.hpp"

namespace weft::plan {

// Adds to `problems`; the plan is worth something only if none was added. `model` has its nodes in natural
// order. The plan's policy and digest are left empty.
Plan validate(const ModelDescription& model, const ParallelSizes& sizes, const Recording& recording,
              std::vector<std::string>& problems);

}  // namespace weft::plan
