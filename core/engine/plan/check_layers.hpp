// Checks that the entries of neighbouring layers fit each other.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

// Adds a text to `problems` for each module whose entry, or lack of one, contradicts the shapes, the heads or
// the split sequences of the model: such a plan would fail in the first step or have wrong gradients. Each
// names the modules and the entry to change. The nodes of `model` must be in natural order, the plan
// otherwise valid.
void check_layers(const ModelDescription& model, const Plan& plan, std::vector<std::string>& problems);

}  // namespace weft::plan
