// Reads the files of tests/oracles/<family>, which family_oracle.py describes, and makes models with the
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

  // How far Hugging Face's own outputs and gradients in half precision are from these, as mean_error()
  // measures.
  struct Noise {
    double outputs = 0, gradients = 0;
  };

  std::string architecture;
  Config config;
  Tensors weights, inputs, outputs, gradients, defined;
  std::map<at::ScalarType, Noise> noise;  // of bf16 and fp16

  // Loads a file of the family under test: "GPT2LMHeadModel.untied".
  static Oracle load(const std::string& file);
  // Returns the names of all files, without their extension.
  static std::vector<std::string> files();
  // Returns the inputs of forward, in fp32.
  Batch batch() const;
  // Returns the sum whose gradients the oracle of a base model has: its outputs, weighed by the cotangent.
  at::Tensor weighed(const State& outputs) const;
};

// Returns a model of the family under test on the meta device (parity_test.cpp).
std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype = at::kFloat);
// Binds storage to every parameter, with the value of its name, as a strategy does that shards nothing.
void bind_weights(nn::Model& model, const Oracle::Tensors& weights);
// Gives every parameter random values, which depend only on the seed.
void bind_random(nn::Model& model, int64_t seed);

std::vector<std::string> unit_names(nn::Model& model);
// Runs all units in order.
State run(nn::Model& model, const Batch& batch);
// Expects that a model in training drops other elements in each forward, and the same ones after the same
// seed, and that an evaluation drops none. Leaves the model in evaluation.
void expect_dropout_in_training_only(nn::Model& model, const Batch& batch,
                                     std::string_view output = "last_hidden_state");
// Returns the loss as the engine computes it on one rank: the sum of weight * sum / count.
at::Tensor total_loss(nn::Model& model, const State& last, const Batch& batch);

}  // namespace weft::test
