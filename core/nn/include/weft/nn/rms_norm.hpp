#pragma once

#include "weft/nn/layers.hpp"

namespace weft::nn {

// Computes y = weight * x / sqrt(mean(x²) + epsilon) over the last dimension. As in Hugging Face's models,
// half-precision inputs are normalized in fp32 and rounded before they are multiplied by the weight.
class RmsNorm : public Fusible {
 public:
  RmsNorm(int64_t channels, double epsilon, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;
  Branch branch(const at::Tensor& x) const;  // see LayerNorm::branch
  std::string kind() const override { return "RMSNorm"; }

  at::Tensor weight;
  const double epsilon;
  std::shared_ptr<NormOperation> operation;  // may be null
};

}  // namespace weft::nn
