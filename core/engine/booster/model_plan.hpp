// The plan of a model: its family's policy, found by name, applied to the model.
#pragma once

#include <string>

#include "plan/plan.hpp"
#include "weft/model.hpp"

namespace weft {

// The policy of the model's family (config key "model_type", otherwise the architecture), or null if none is
// installed.
const weft_shard_policy* find_policy(const nn::Model& model, std::string* identity);

plan::Plan make_plan(const nn::Model& model, const plan::ParallelSizes& sizes, std::string* policy_identity);

}  // namespace weft
