// Parameters that an operation adds to a layer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/layers.hpp"
#include "weft/nn/model.hpp"
#include "weft/plan.hpp"

namespace weft::nn {

// A child with parameters of its own that an operation adds to a layer, such as a factor of an adapter. The
// operation in the layer's slot computes with it.
class Addition : public Layer {
 public:
  std::string kind() const override { return "Addition"; }
  // Returns the initial values of a parameter that the checkpoint does not have. Initial::of_layer() computes
  // them from the values of the layer.
  virtual Initial initial(std::string_view parameter) const = 0;

  // The operation that added this child, and its attributes. weft::Model::adapt sets both.
  std::string operation;
  std::vector<plan::Attribute> attributes;
};

}  // namespace weft::nn
