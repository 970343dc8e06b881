// Objectives: training on data without labels, which are made from the inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/data/dataset.hpp"
#include "weft/model.hpp"

namespace weft {

// An objective by name, with its settings. One that has no effect on the objective is refused.
struct ObjectiveOptions {
  // "causal_lm": labels are the ids; the model predicts each token from those before it. "masked_lm": of the
  // tokens that are neither special nor padding, each is chosen with probability mlm_probability; of these
  // 80 % become mask_token_id, 10 % any id of the vocabulary, and 10 % stay. Labels are -100 elsewhere. A
  // sample of which none is chosen gets one. "masked_image": "bool_masked_pos" masks squares of the image.
  // "next_sentence": samples are pairs of sentences from documents of text (TextOptions::sentence_labels).
  // "masked_lm_next_sentence": such pairs with masked tokens. Empty: the first objective of the model's
  // class.
  std::string objective;
  // The next three are of masked_lm and masked_lm_next_sentence, which need the first one.
  std::optional<int64_t> mask_token_id;  // counts as special
  // Ids that are never chosen ([CLS], [SEP], padding); none by default. The command adds the special tokens
  // of the tokenizer.
  std::optional<std::vector<int64_t>> special_ids;
  std::optional<double> mlm_probability;   // default 0.15
  std::optional<double> mask_ratio;        // of masked_image: the share of squares; default 0.6
  std::optional<int64_t> mask_patch_size;  // of masked_image: the side of a square in pixels; default 32
  int64_t seed = 1024;  // with the epoch and the number of the sample, decides all that is drawn
};

// Returns the names of the objectives that a model can be trained by, the usual one first. Empty for a model
// that learns only from labels in the data.
std::vector<std::string> objectives(const Model& model);

// Returns `dataset` with the inputs and labels of an objective. What is drawn depends on the seed, the epoch
// and the number of the sample, not on ranks, batches, threads or a resume. Throws INVALID_ARGUMENT for an
// objective that the model cannot be trained by, for settings that are missing, wrong or without effect, for
// a data set that has labels already, and, here or for a later batch, for ids of another dtype than int64 and
// int32 and for an attention mask of another shape than the ids. Pairs of sentences are made from documents,
// not from samples, so it refuses "next_sentence" and "masked_lm_next_sentence": open the text with
// TextOptions::sentence_labels, and for both labels use "masked_lm" on that.
std::shared_ptr<data::Dataset> with_objective(const Model& model, std::shared_ptr<data::Dataset> dataset,
                                              const ObjectiveOptions& options);

}  // namespace weft
