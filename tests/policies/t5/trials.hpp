// Tiny T5 models to be trained: sizes that no number of ranks divides.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "plugins/support/parity.hpp"

namespace weft::test {

inline constexpr const char* kGeneration = "T5ForConditionalGeneration";
// Keys of the configuration.
inline constexpr const char* kTied = R"("feed_forward_proj": "relu")";
inline constexpr const char* kUntied = R"("feed_forward_proj": "gated-gelu", "tie_word_embeddings": false)";

// Two blocks in each stack, 12 channels, 4 heads of 5.
Model tiny_t5(const JobOptions& options, const char* architecture, const char* keys, double dropout = 0);

// 9 positions of the encoder and 5 of the decoder. Padding and labels that do not count are many in some
// samples, so that ranks differ.
Batch t5_batch(std::string_view architecture, int64_t samples, int64_t seed);

Trial t5_trial(const char* architecture, const char* keys, double tolerance = 0);

JobOptions under(const std::string& strategy, const std::string& options, const std::string& precision);

// Under a criterion of all outputs. These are outside of what is split: a gradient that enters there counts
// once. Collective.
Tensors t5_criterion_gradients(const World& world, const char* architecture, const JobOptions& options);

}  // namespace weft::test
