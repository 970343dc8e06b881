// The plan of a model: its family's policy, found by name, applied to the model.
#pragma once

#include <string>

#include "plan/plan.hpp"
#include "weft/model.hpp"

namespace weft {

// The policy called `name`, or if that is empty the model's family's (config key "model_type", otherwise the
// architecture): null if none is installed. `identity`: what ranks compare.
const weft_shard_policy* find_policy(const nn::Model& model, const std::string& name, std::string* identity);

plan::Plan make_plan(const nn::Model& model, const plan::ParallelSizes& sizes, const std::string& policy_name,
                     std::string* policy_identity);

}  // namespace weft
