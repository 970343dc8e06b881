// Second names of parameters in checkpoints.
#pragma once

#include "weft/nn/layers.hpp"

namespace weft::nn {

// A module in which a model registers parameters of its layers once more, because checkpoints store them
// under the path of this module. Model::ties() has both names. It computes nothing, so a plan has the
// parameters in the layers only.
class ParameterNames : public Layer {
 public:
  std::string kind() const override { return "ParameterNames"; }
};

}  // namespace weft::nn
