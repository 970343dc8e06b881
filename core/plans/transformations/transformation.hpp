// A transformation: what the host changes in the layers of a plan. A policy says how layers are split; after
// it the host chooses what computes each of them, from the user's options, its kind and its entry.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

// A layer of the model. `entry` gives it its operation; null if the policy does not name it.
struct TransformedLayer {
  const Node& node;
  const Replacement* entry = nullptr;
};

// A transformation. Its function in core/parallel/install changes the layer.
struct Transformation {
  std::string name;                // "plain_attention"
  std::vector<std::string> kinds;  // of the layers that it can change
  std::string layers;              // these in words, for messages
  std::string option;              // of the user: "enable_flash_attention"
  bool ParallelSizes::*flag;       // its value
  bool wanted = false;             // the value with which the user asks for the transformation
  // Returns why a layer of these kinds is changed, "" if it is not.
  std::string (*reason)(const Transformation& self, const TransformedLayer& layer,
                        const ParallelSizes& sizes);
};

// Returns the transformations in the order in which they are applied.
const std::vector<Transformation>& transformations();

// Returns what the transformations change in the layers of `plan`.
std::vector<Transformed> transform(const ModelDescription& model, const Plan& plan);

// Returns one line for each option that asks for a transformation of layers that the model does not have.
std::vector<std::string> options_without_layers(const Plan& plan);

}  // namespace weft::plan
