// Tiny T5 models for training, with sizes that are not multiples of the number of ranks.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "plugins/support/parity.hpp"

namespace weft::test {

inline constexpr const char* kGeneration = "T5ForConditionalGeneration";
// Some keys of the configuration.
inline constexpr const char* kTied = R"("feed_forward_proj": "relu")";
inline constexpr const char* kUntied = R"("feed_forward_proj": "gated-gelu", "tie_word_embeddings": false)";

// Returns a configuration with two blocks in each stack, 12 channels and 4 heads of size 5.
Model tiny_t5(const JobOptions& options, const char* architecture, const char* keys, double dropout = 0);

// Returns a batch with 9 positions in the encoder and 5 in the decoder. Some samples have much padding and
// many ignored labels, so that ranks differ.
Batch t5_batch(std::string_view architecture, int64_t samples, int64_t seed);

Trial t5_trial(const char* architecture, const char* keys, double tolerance = 0);

JobOptions under(const std::string& strategy, const std::string& options, const std::string& precision);

}  // namespace weft::test
