// Checks that the entries of neighbouring layers fit each other.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

// Adds a text to `problems` for each module whose entry, or lack of one, does not fit the shapes, the heads
// or the split sequences of the model, so that the first step would fail or give wrong gradients. Each text
// names the modules and what to change. The nodes of `model` must be in natural order, and the plan must be
// valid otherwise.
void check_layers(const ModelDescription& model, const Plan& plan, std::vector<std::string>& problems);

}  // namespace weft::plan
