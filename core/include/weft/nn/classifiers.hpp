// The heads that give labels to sequences, images, tokens or answers. Shapes: N rows, T positions, C
// channels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/nn/head.hpp"

namespace weft::nn {

// What config.json says of the labels that a class gives.
struct Labels {
  int64_t count = 2;
  std::string problem;  // problem_type; empty: by the count and the labels' type
};

// The labels of whole samples and their loss: cross entropy of one label, binary cross entropy of several, or
// the squared error of a regression.
class ClassLabels {
 public:
  explicit ClassLabels(Labels labels) : labels_(std::move(labels)) {}
  int64_t count() const { return labels_.count; }
  // Checks the batch's labels, if it has any: (rows), (rows, 1) or (rows, count), by the problem.
  void check(const BatchFields& batch, int64_t rows) const;
  // logits: (rows, count). One term "loss"; none without labels.
  std::vector<LossTerm> loss(const at::Tensor& logits, const Batch& batch) const;
  std::vector<LossCount> counts(const Batch& batch) const;

 private:
  enum class Problem { kRegression, kSingleLabel, kMultiLabel };
  Problem problem(const at::Tensor& labels) const;

  const Labels labels_;
};

// Registers "score", without a bias, in `model`. It classifies the last token of each sequence: the rightmost
// that is not `padding`, whatever the attention mask says; without `padding` a batch may have one row only.
std::unique_ptr<Head> make_sequence_classifier(torch::nn::Module& model, int64_t channels,
                                               const Labels& labels, std::optional<int64_t> padding,
                                               at::ScalarType dtype);

// Registers "dropout" and "classifier" in `model`. It classifies every token.
std::unique_ptr<Head> make_token_classifier(torch::nn::Module& model, int64_t channels, const Labels& labels,
                                            double dropout, at::ScalarType dtype);

// Registers "qa_outputs" in `model`. It tells where an answer begins and ends: two classifications over all
// positions, padding too. A label before the text is its first position, one behind the text is ignored.
std::unique_ptr<Head> make_answer_head(torch::nn::Module& model, int64_t channels, at::ScalarType dtype);

}  // namespace weft::nn
