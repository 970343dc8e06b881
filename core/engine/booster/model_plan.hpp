// The plan of a model: its family's policy, found by name, applied to the model.
#pragma once

#include <optional>
#include <string>

#include "plan/plan.hpp"
#include "weft/model.hpp"

namespace weft {

// The policy called `name`, or in the JSON file at that path (a '/' in it, or ".json" at its end); if it is
// empty the model's family's (config key "model_type", otherwise the architecture), nothing if none is
// installed. `identity`: what ranks compare.
std::optional<plan::Policy> find_policy(const nn::Model& model, const std::string& name,
                                        std::string* identity);

plan::Plan make_plan(const nn::Model& model, const plan::ParallelSizes& sizes, const std::string& policy_name,
                     std::string* policy_identity);

}  // namespace weft
