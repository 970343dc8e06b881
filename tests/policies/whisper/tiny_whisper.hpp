// Tiny Whisper models for training, with sizes that are not multiples of the number of ranks.
#pragma once

#include <fmt/format.h>

#include <string>

#include "plugins/support/parity.hpp"

namespace weft::test {

inline constexpr const char* kWhisperGeneration = "WhisperForConditionalGeneration";
inline constexpr const char* kWhisperClassifier = "WhisperForAudioClassification";
// Some keys of the configuration.
inline constexpr const char* kTiedWhisper = R"("tie_word_embeddings": true)";
inline constexpr const char* kUntiedWhisper =
    R"("tie_word_embeddings": false, "activation_function": "relu")";
inline constexpr const char* kWeighted = R"("use_weighted_layer_sum": true)";
inline constexpr const char* kAugmented =
    R"("apply_spec_augment": true, "mask_time_prob": 0.3, "mask_time_length": 2, "mask_feature_prob": 0.4,
       "mask_feature_length": 1)";

// What a trial trains.
struct TinyWhisper {
  std::string architecture = kWhisperGeneration;
  std::string keys = kTiedWhisper;
  int64_t source = 5, target = 7;  // positions of the encoder and of the decoder
  double dropout = 0;
};

// Returns a model with two blocks in each stack and 16 channels, of 4 heads in the encoder and 8 in the
// decoder.
Model tiny_whisper(const TinyWhisper& whisper, const std::string& precision);
// Returns spectra with labels, ignored ones among them, or with the ids of a decoder. Some samples have much
// padding, so that ranks differ.
Batch whisper_batch(const TinyWhisper& whisper, int64_t samples, int64_t seed);
Trial whisper_trial(const TinyWhisper& whisper, const std::string& precision);

}  // namespace weft::test
