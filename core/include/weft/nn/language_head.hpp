// The head that predicts tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/nn/head.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

// Logits over a vocabulary for each position, and their cross entropy.
class LanguageHead : public Head {
 public:
  struct Options {
    int64_t channels, vocabulary;
    at::ScalarType dtype;
    std::string module = "lm_head";  // the name under which the layer is registered
    std::string prefix = {};  // of the module that it is registered in, in the model ("cls.predictions.")
    bool bias = false;        // has one of its own, also where the weight is tied
    // The token embedding and the name of its weight in the model, where the layer has that weight.
    const Embedding* tied = nullptr;
    std::string tied_name = {};
    const char* term = "loss";
    bool shifts = true;  // position i predicts label i + 1; otherwise label i
    double scale = 1;    // of the hidden states
  };
  // Registers the layer in `parent`.
  LanguageHead(torch::nn::Module& parent, const Options& options);

  std::vector<std::string> fields() const override { return {kLabels}; }
  // labels: of the shape `positions`.
  void prepare(const BatchFields& batch, at::IntArrayRef positions, State& state) const override;
  std::vector<torch::nn::Module*> modules() const override { return {layer_.get()}; }
  void forward(const Finish& finish, State& state) const override;
  std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const override;
  std::vector<LossCount> counts(const Batch& batch, at::IntArrayRef positions) const override;
  std::vector<Tie> ties() const override;

  // (..., C) -> (..., vocabulary)
  at::Tensor logits(const at::Tensor& hidden) const { return (*layer_)(hidden); }

 private:
  const Options options_;
  std::shared_ptr<Linear> layer_;
};

// The labels of next tokens: (..., T) moved one place to the left, the last one ignored.
at::Tensor next_tokens(const at::Tensor& labels);

}  // namespace weft::nn
