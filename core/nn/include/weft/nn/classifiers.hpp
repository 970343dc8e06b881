// Heads for classification: of sequences and images, of tokens, and of the begin and end of an answer.
// Shapes: N rows, T positions, C channels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/head.hpp"

namespace weft::nn {

// The labels of a classifier in config.json.
struct Labels {
  int64_t count = 2;
  std::string problem;  // "problem_type"; if empty, it follows from the count and the dtype of the labels
  std::string origin = "the configuration";  // the file, for messages
  std::vector<std::string> names = {};       // of "id2label", by id; empty if it names not each of them
};

// Throws INVALID_ARGUMENT unless a classifier whose loss is always the cross entropy of one label can learn
// these labels: there are two or more, and "problem_type" names no other loss. `who` is the classifier for
// messages. Hugging Face's classes ignore the key, and their loss of a single label is 0.
void require_cross_entropy(const Labels& labels, std::string_view who);

// The labels of whole samples and their loss: cross entropy for one label, binary cross entropy for several
// labels, or the squared error for a regression. With "class_weights" (B, count) in the batch the cross
// entropy of a sample is multiplied by the weight of its label, and counts as much; of several labels the
// term of a label that is 1 is multiplied.
class ClassLabels {
 public:
  explicit ClassLabels(Labels labels) : labels_(std::move(labels)) {}
  int64_t count() const { return labels_.count; }
  // Checks the labels of `batch`, if it has any: shape (rows), (rows, 1) or (rows, count), by the problem.
  // Throws INVALID_ARGUMENT.
  void check(const BatchFields& batch, int64_t rows) const;
  // Returns one term "loss", or none if `batch` has no labels. logits: (rows, count).
  std::vector<LossTerm> loss(const at::Tensor& logits, const Batch& batch) const;
  std::vector<LossCount> counts(const Batch& batch) const;
  // Returns the statistics of classes, of several labels, or of a regression. A label is predicted if its
  // logit is positive. A regression of several numbers has their mean squared error alone.
  std::vector<Metric> metrics(const at::Tensor& logits, const Batch& batch) const;

 private:
  enum class Problem { kRegression, kSingleLabel, kMultiLabel };
  Problem problem(const at::Tensor& labels) const;

  const Labels labels_;
};

// Returns a head that classifies each sequence by its last token, and registers its layer "score" (no bias)
// in `model`. As in Hugging Face, the last token is the rightmost one that is not `padding`, and the
// attention mask is not read. Without `padding`, or where the model's configuration says that it also ends
// texts ("eos_token_id"), it is the rightmost one that the mask has. Without both a batch can have one row
// only.
std::unique_ptr<Head> make_sequence_classifier(torch::nn::Module& model, int64_t channels,
                                               const Labels& labels, std::optional<int64_t> padding,
                                               at::ScalarType dtype);

// Returns a head that classifies every token, and registers "dropout" and the layer `name` in `model`. Its
// metrics are those of classes, and where the names of the labels are tags (B-X, I-X, O) those of entities,
// as seqeval finds them. Throws like require_cross_entropy().
std::unique_ptr<Head> make_token_classifier(torch::nn::Module& model, int64_t channels, const Labels& labels,
                                            double dropout, at::ScalarType dtype,
                                            const std::string& name = "classifier", bool bias = true);

// Returns a head for question answering, and registers "qa_outputs" in `model`. It predicts where an answer
// begins and ends: two classifications over all positions, padding included. As in Hugging Face, a negative
// label counts as position 0, and a label behind the last position is ignored.
//
// Its metrics are those of SQuAD (Rajpurkar et al., SQuAD: 100,000+ questions for machine comprehension of
// text, arXiv:1606.05250), on ids in place of words. The predicted answer is the span of positions with the
// largest sum of both logits that does not end before it begins, and has no padding (attention_mask 0).
// "exact_match" counts predicted answers with the ids of the labelled one; "f1" is the harmonic mean of the
// precision and the recall of the ids, with repetitions. Both are means over the samples whose labels lie
// within the sequence.
std::unique_ptr<Head> make_answer_head(torch::nn::Module& model, int64_t channels, at::ScalarType dtype);

}  // namespace weft::nn
