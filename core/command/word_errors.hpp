// How far generated texts are from what they should be.
#pragma once

#include <cstdint>
#include <string_view>

#include "weft/data/dataset.hpp"
#include "weft/generation.hpp"
#include "weft/tokenizer.hpp"

namespace weft::command {

struct WordErrors {
  int64_t errors = 0;  // words that are replaced, left out or added
  int64_t words = 0;   // of the references

  // Returns the word error rate.
  double rate() const { return static_cast<double>(errors) / static_cast<double>(words); }
};

// Counts the least errors that turn `reference` into `found`. White space separates words, which are compared
// as they are.
WordErrors word_errors(std::string_view reference, std::string_view found);

// Generates a text for each sample with `options`, and compares it with the text of the sample's labels. All
// ranks compute the same. Throws INVALID_ARGUMENT unless the model has an encoder and a decoder and the
// samples labels of tokens. Collective.
WordErrors count_word_errors(Job& job, const data::Dataset& dataset, const Tokenizer& tokenizer,
                             GenerationOptions options, int64_t batch_size);

}  // namespace weft::command
