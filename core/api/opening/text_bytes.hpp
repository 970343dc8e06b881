// How many bytes of text a language model predicts, for bits per byte.
#pragma once

#include <memory>

#include "weft/data/dataset.hpp"
#include "weft/model.hpp"

namespace weft {

// Returns the samples with the labels whose text counts (nn::kTextLabels), which are all but special tokens,
// and the bytes of that text (nn::kTextBytes), as the model's tokenizer writes them; without a tokenizer the
// tokens of a model with 256 of them are bytes. Returns `dataset` for a model that does not continue text,
// for tokens without text, and for samples without labels.
std::shared_ptr<data::Dataset> with_text_bytes(const Model& model, std::shared_ptr<data::Dataset> dataset);

}  // namespace weft
