// Finds the shard policy of a model and makes the model's plan with it.
#pragma once

#include <optional>
#include <string>

#include "plan/plan.hpp"
#include "weft/model.hpp"

namespace weft {

// Returns the policy with this name, or the one in a JSON file if `name` has a '/' or ends in ".json". If
// `name` is empty, returns the policy of the model's family (config key "model_type", otherwise the
// architecture), or nothing if none is installed. Sets `identity`, which ranks compare.
std::optional<plan::Policy> find_policy(const nn::Model& model, const std::string& name,
                                        std::string* identity);

// Returns the plan of the model by find_policy; without a policy, a plan that leaves every layer whole.
plan::Plan make_plan(nn::Model& model, const plan::ParallelSizes& sizes, const std::string& policy_name,
                     std::string* policy_identity);

}  // namespace weft
