// Stochastic depth: branches of residual blocks that are left out at random.
#pragma once

#include "weft/nn/layers.hpp"

namespace weft::nn {

// In training mode sets the result of a branch to zero, for each sample with this probability, and multiplies
// it by 1 / (1 - probability) for the others (Huang et al., Deep networks with stochastic depth,
// arXiv:1603.09382). Ranks that share a sample leave out the same branches.
class DropPath : public Layer {
 public:
  explicit DropPath(double probability) : probability(probability) {}
  at::Tensor operator()(const at::Tensor& x) const;  // (N, ...); returns x in evaluation mode
  std::string kind() const override { return "DropPath"; }

  const double probability;
};

// Returns the probability of layer `layer` of `count`, counted from 0: it grows evenly from 0 in the first
// layer to `rate` in the last one, as in Hugging Face's models with "drop_path_rate".
double drop_path_probability(double rate, int64_t layer, int64_t count);

}  // namespace weft::nn
