// Validates the calls of a policy, makes a plan of them, and checks that neighbouring layers fit each other.
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

// Adds a text to `problems` for each module whose entry, or lack of one, does not fit the shapes, the heads
// or the split sequences of the model, so that the first step would fail or give wrong gradients. Each text
// names the modules and what to change. The nodes of `model` must be in natural order, and the plan must be
// valid otherwise.
void check_layers(const ModelDescription& model, const Plan& plan, std::vector<std::string>& problems);

}  // namespace weft::plan
