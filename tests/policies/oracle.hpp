// One file of tests/data/oracles/<family> (what is in it: family_oracle.py there), and models with the
// weights of one.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/model.hpp"

namespace weft::test {

struct Oracle {
  using Tensors = std::map<std::string, at::Tensor>;

  std::string architecture;
  Config config;
  Tensors weights, inputs, outputs, gradients, defined;

  // Of the family under test. `file`: "GPT2LMHeadModel.untied"
  static Oracle load(const std::string& file);
  // All files, without the ending.
  static std::vector<std::string> files();
  // The inputs of forward, in fp32.
  Batch batch() const;
};

// A model of the family under test, on the meta device: defined by the tests of each family.
std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype = at::kFloat);
// As a strategy without splits does: storage behind every parameter, with the value of that name.
void bind_weights(nn::Model& model, const Oracle::Tensors& weights);
// Random values for every parameter, the same for the same seed.
void bind_random(nn::Model& model, int64_t seed);

std::vector<std::string> unit_names(nn::Model& model);
// All units after each other.
State run(nn::Model& model, const Batch& batch);
// The loss as the engine takes it on one rank: the sum of weight * sum / count.
at::Tensor total_loss(nn::Model& model, const State& last, const Batch& batch);

}  // namespace weft::test
