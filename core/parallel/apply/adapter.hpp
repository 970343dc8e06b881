// The parameters that Model::adapt has added to the layers of a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/nn/model.hpp"
#include "weft/operation.hpp"

namespace weft {

struct Adapter {
  const plan::Operation* operation;
  std::vector<plan::Attribute> attributes;
  std::vector<plan::PlannedNode> layers;  // the adapted layers, with their paths in the model
  std::vector<std::string> parameters;    // full names of the added parameters
};

// Returns the adapter of a model, nothing if it has none.
std::optional<Adapter> adapter_of(const nn::Model& model);

}  // namespace weft
