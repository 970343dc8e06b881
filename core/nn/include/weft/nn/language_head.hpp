// The head of language models.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/nn/head.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

// A head that computes logits over the vocabulary for each position, and their cross entropy.
class LanguageHead : public Head {
 public:
  struct Options {
    int64_t channels, vocabulary;
    at::ScalarType dtype;
    std::string module = "lm_head";  // the name of the layer
    std::string prefix = {};         // the path of the module that contains it ("cls.predictions.")
    bool bias = false;               // whether the layer has a bias, which the embedding does not have
    // The token embedding whose weight the layer shares, and the name of that weight in the model.
    const Embedding* tied = nullptr;
    std::string tied_name = {};
    const char* term = "loss";      // the name of the loss term
    const char* output = "logits";  // the name of the output
    bool shifts = true;             // whether position i predicts label i + 1 (causal) or label i (masked)
    double scale = 1;               // multiplies the hidden states
    double soft_cap = 0;            // if not 0, the bound of the logits: soft_capped() of them
    // The name of the metric that is the share of the labels with the largest logit; empty for none.
    std::string accuracy = {};
  };
  // Creates the layer and registers it in `parent`.
  LanguageHead(torch::nn::Module& parent, const Options& options);

  std::vector<std::string> fields() const override { return {kLabels, kTextLabels, kTextBytes}; }
  // Checks that the labels have the shape `positions`.
  void prepare(const BatchFields& batch, at::IntArrayRef positions, State& state) const override;
  std::vector<torch::nn::Module*> modules() const override { return {layer_.get()}; }
  void forward(const Finish& finish, State& state) const override;
  std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const override;
  std::vector<LossCount> counts(const Batch& batch, at::IntArrayRef positions) const override;
  // Returns causal_lm if the labels are shifted, otherwise masked_lm.
  std::vector<Objective> objectives() const override;
  // Returns the accuracy, if Options names one, and "bits_per_byte" of a batch that has kTextBytes.
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override;
  std::string perplexity_term() const override { return options_.term; }
  std::vector<Tie> ties() const override;

  // (..., T, C) -> (..., T, vocabulary). In a forward with a KeyValueCache, which generates tokens, the
  // result has the last position alone. In a forward for the loss alone of which more than a quarter of the
  // labels do not count, it has the rows of the others, (rows, vocabulary), which loss() knows.
  at::Tensor logits(const at::Tensor& hidden) const;
  const Linear& layer() const { return *layer_; }

 protected:
  // What stands between the hidden states and the layer, for each position by itself.
  virtual at::Tensor transform(const at::Tensor& hidden) const { return hidden; }

 private:
  // Returns the label of each position's logits.
  at::Tensor labels_of(const Batch& batch, const char* field = kLabels) const;
  // Returns those of the positions whose logits this rank computes.
  at::Tensor own_labels(const at::Tensor& labels) const;
  // What a forward for the loss alone computes.
  struct LossRows {
    at::Tensor labels;  // of the logits
    // The rows of which logits() computes the logits, counted over all leading dimensions; undefined for all.
    at::Tensor chosen;
  };
  // Returns what the forward that runs computes; null if it is not for the loss alone.
  const LossRows* rows_of_loss() const;

  const Options options_;
  std::shared_ptr<Linear> layer_;
};

// Returns the options of the language model of a family of token models, whose `setting` is a HeadSetting
// (architecture.hpp). The layer shares the token embedding's weight, `embedding` in the model, if the
// configuration ties them.
template <class Setting>
LanguageHead::Options language_options(const Setting& setting, int64_t channels, const char* embedding) {
  LanguageHead::Options options = {channels, setting.config.vocab_size, setting.dtype};
  if (!setting.config.tie_word_embeddings) return options;
  options.tied = &setting.embedding;
  options.tied_name = embedding;
  return options;
}

// Returns the labels (..., T) moved one position to the left; the last label is kIgnored.
at::Tensor next_tokens(const at::Tensor& labels);

}  // namespace weft::nn
