// Texts with labels, as samples that are padded to the longest of their batch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "labels/text_encoding.hpp"
#include "weft/data/dataset.hpp"

namespace weft::data {

// The labels of samples, as a batch has them.
enum class LabelForm {
  kNone,
  kClass,       // (B), int64
  kIndicators,  // (B, K), 1 for each class that the sample has, fp32
  kNumber,      // (B), fp32
  kTokens,      // (B, T), int64, -100 where there is none
};

// A text with its label.
struct LabelledSample {
  EncodedSequence sequence;
  std::vector<int64_t> classes;  // of kClass and kIndicators; of kTokens one for each id
  double number = 0;
  std::vector<int32_t> words;  // the position of the first id of each word, or -1; of words alone
};

// Returns the labels of the tokens of a sample from the tags of its words: of the first token of each word,
// and with `all` of every one, where B-X of a word that begins an entity is I-X for its further tokens if
// there is such a class. The labels of other tokens do not count. `ends`: the number of ids behind the last
// word.
std::vector<int64_t> token_labels(const LabelledSample& sample, const std::vector<int64_t>& tags,
                                  const std::vector<std::string>& names, bool all, size_t ends);

// Returns for each of K classes n / (K n_c): n_c of the labels that count are of the class, and n are all of
// them, or with `several` labels a sample all samples; 1 for a class without labels.
std::vector<double> balanced_weights(const std::vector<LabelledSample>& samples, size_t classes,
                                     bool several);

// How samples become batches.
struct LabelledTextOptions {
  LabelForm form = LabelForm::kNone;
  int64_t classes = 0;                // K, of kIndicators
  bool token_types = false;           // whether the model reads them
  bool positions = false;             // whether it reads position_ids, which pads_left needs
  int64_t padding = 0;                // the id of padding
  bool pads_left = false;             // also the side on which predictions are padded
  int64_t pad_to_multiple = 1;        // of which the length of every batch is a multiple
  std::vector<double> class_weights;  // (K), of the loss; empty: samples have none
};

// A sample has ids and an attention mask (T), token types (T) if the model reads them, and "labels"; with
// weights of classes "class_weights" (K). With padding on the left it has positions (T) that begin with 0 at
// its first token, so that padding on either side gives the same outputs. T is the length of the longest
// sample of the batch, rounded up.
class LabelledTexts final : public Dataset {
 public:
  LabelledTexts(std::vector<LabelledSample> samples, LabelledTextOptions options, std::string name);

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  std::string name() const override { return name_; }
  Batch get(const std::vector<int64_t>& indices) const override;
  int64_t sample_length(int64_t index) const override;
  // Returns how many samples were cut to the sequence length.
  int64_t cut() const { return cut_; }
  const LabelledSample& sample(int64_t index) const;
  // Returns the length of a batch whose longest sample has so many ids.
  int64_t padded(int64_t longest) const;
  bool pads_left() const { return options_.pads_left; }

 private:
  at::Tensor token_labels(const std::vector<int64_t>& indices, int64_t length) const;
  void set_labels(const std::vector<int64_t>& indices, int64_t length, Batch& batch) const;

  const std::vector<LabelledSample> samples_;
  const LabelledTextOptions options_;
  const std::string name_;
  int64_t cut_ = 0;
};

}  // namespace weft::data
