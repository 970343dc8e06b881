// Describes a model as plain data, from which a plan is built.
#pragma once

#include <optional>
#include <string>

#include "plan/plan.hpp"
#include "weft/nn/model.hpp"

namespace weft::plan {

// Returns a description with one node for every module except the root and the base model. A layer has its
// kind(), any other module the kind "Module". Paths are relative to the base model; heads stand beside it.
// Parameters that an operation has added to a layer belong to the layer's node.
ModelDescription describe_model(nn::Model& model);

// Returns the name of a module in plans, relative to the base model, whose path in the model is
// `base_prefix`.
std::string planned_name(std::string_view name, std::string_view base_prefix);

// Returns the text that `weft plan --explain` prints: the modules, then the plan, which is empty without a
// policy.
std::string explain_model(nn::Model& model, const std::optional<Policy>& policy, const ParallelSizes& sizes);

}  // namespace weft::plan
