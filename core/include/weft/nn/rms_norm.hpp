#pragma once

#include "weft/nn/layers.hpp"

namespace weft::nn {

// y = x / sqrt(mean(x²) + epsilon) weight over the last dimension, as Hugging Face's models take it: half
// precision is normalised in fp32 and rounded before the weight multiplies it.
class RmsNorm : public Fusible {
 public:
  RmsNorm(int64_t channels, double epsilon, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;
  std::string kind() const override { return "RMSNorm"; }

  at::Tensor weight;
  const double epsilon;
  std::shared_ptr<NormOperation> operation;  // may be null
};

}  // namespace weft::nn
