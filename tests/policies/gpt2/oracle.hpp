// One file of tests/data/oracles/gpt2 (what is in it: generate.py there), and models with the weights of one.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpt2_model.hpp"

namespace weft::test {

struct Oracle {
  using Tensors = std::map<std::string, at::Tensor>;

  std::string architecture;
  Config config;
  Tensors weights, inputs, outputs, gradients, defined;

  // `file`: "GPT2LMHeadModel.untied"
  static Oracle load(const std::string& file);
  // All files, without the ending.
  static std::vector<std::string> files();
  // The inputs of forward, in fp32.
  Batch batch() const;
};

// On the meta device.
std::shared_ptr<gpt2::Gpt2Model> make_gpt2(const Config& config, std::string_view architecture,
                                           at::ScalarType dtype = at::kFloat);
// As a strategy without splits does: storage behind every parameter, with the value of that name.
void bind_weights(nn::Model& model, const Oracle::Tensors& weights);
// Random values for every parameter, the same for the same seed.
void bind_random(nn::Model& model, int64_t seed);

// All units after each other.
State run(nn::Model& model, const Batch& batch);
// The loss as the engine takes it on one rank: the sum of weight * sum / count.
at::Tensor total_loss(nn::Model& model, const State& last, const Batch& batch);

}  // namespace weft::test
