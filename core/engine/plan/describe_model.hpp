// The bridge from a model to its plan.
#pragma once

#include <optional>
#include <string>

#include "plan/plan.hpp"
#include "weft/nn/model.hpp"

namespace weft::plan {

// Every module but the root: a layer by its kind(), another module as "Module". Paths are relative to the
// base model, which is no node itself; heads stand beside. What operations have added to a layer belongs to
// the layer's node. `model` must outlive the description.
ModelDescription describe_model(const nn::Model& model);

// The name of a module in plans: relative to the base model, whose path in the model is `base_prefix`.
std::string planned_name(std::string_view name, std::string_view base_prefix);

// What `weft plan --explain` prints: the modules, then the plan; without a policy the empty one.
std::string explain_model(const nn::Model& model, const std::optional<Policy>& policy,
                          const ParallelSizes& sizes);

}  // namespace weft::plan
