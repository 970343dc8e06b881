// Parameters that an operation has added to a layer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/layers.hpp"
#include "weft/nn/model.hpp"
#include "weft/plan.hpp"

namespace weft::nn {

// A child that an operation gives a layer, with parameters of its own: a factor of an adapter, for example.
// The layer's slot computes with it.
class Addition : public Layer {
 public:
  std::string kind() const override { return "Addition"; }
  // Returns how its parameter begins where a checkpoint does not have it.
  virtual Initial initial(std::string_view parameter) const = 0;

  // The operation that added it, and with which attributes: filled by weft::Model::adapt.
  std::string operation;
  std::vector<plan::Attribute> attributes;
};

}  // namespace weft::nn
