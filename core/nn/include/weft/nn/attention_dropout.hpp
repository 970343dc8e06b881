// The dropout of attention weights.
#pragma once

#include "weft/nn/layers.hpp"

namespace weft::nn {

// Holds the probability with which attention drops weights (AttentionOptions::dropout). Attention draws the
// masks itself, from its own random stream, so no entry of a plan has an effect on this layer: it has a kind
// of its own, which no operation fits.
class AttentionDropout : public Dropout {
 public:
  using Dropout::Dropout;
  std::string kind() const override { return "AttentionDropout"; }
};

}  // namespace weft::nn
