// Heads that read one vector of each sequence, which a pooler computes from the first position. Shapes:
// B samples, N rows, T positions, C channels.
#pragma once

#include <memory>
#include <string_view>

#include "weft/nn/classifiers.hpp"
#include "weft/nn/head.hpp"
#include "weft/nn/layers.hpp"

namespace weft::nn {

// Computes activation(dense(x)) of the first position of each sequence.
class Pooler : public Layer {
 public:
  // Throws INVALID_ARGUMENT unless `activation` is the name of one.
  Pooler(int64_t in, int64_t out, std::string_view activation, at::ScalarType dtype);
  at::Tensor operator()(const at::Tensor& x) const;  // x: (N, T, in) -> (N, out)
  std::string kind() const override { return "Pooler"; }

  std::shared_ptr<Linear> dense;

 private:
  const ActivationFunction activation_;
};

// Returns the head of a base model with a pooler, whose outputs are "last_hidden_state" and "pooler_output".
std::unique_ptr<Head> make_pooled_base_head(std::shared_ptr<Pooler> pooler);

// Returns a head that classifies each sequence, and registers "dropout" and "classifier" in `model`.
std::unique_ptr<Head> make_pooled_classifier(torch::nn::Module& model, std::shared_ptr<Pooler> pooler,
                                             int64_t channels, const Labels& labels, double dropout,
                                             at::ScalarType dtype);

// Returns a head that chooses one of several sequences: ids have the shape (B, choices, T), labels (B), and
// logits (B, choices). Registers "dropout" and "classifier" in `model`.
std::unique_ptr<Head> make_choice_classifier(torch::nn::Module& model, std::shared_ptr<Pooler> pooler,
                                             int64_t channels, double dropout, at::ScalarType dtype);

}  // namespace weft::nn
