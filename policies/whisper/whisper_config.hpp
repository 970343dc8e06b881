// The configuration of Whisper. Names and defaults are those of Hugging Face's WhisperConfig in transformers
// 4 and 5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "spec_augment.hpp"
#include "weft/config.hpp"
#include "weft/nn/classifiers.hpp"

namespace weft::whisper {

struct WhisperConfig {
  int64_t vocab_size = 51865;
  int64_t num_mel_bins = 80;
  int64_t d_model = 384;
  int64_t encoder_layers = 4;
  int64_t encoder_attention_heads = 6;
  int64_t encoder_ffn_dim = 1536;
  int64_t decoder_layers = 4;
  int64_t decoder_attention_heads = 6;
  int64_t decoder_ffn_dim = 1536;
  int64_t max_source_positions = 1500;  // of the encoder, after the convolutions
  int64_t max_target_positions = 448;
  std::string activation_function = "gelu";  // of the blocks; the convolutions have "gelu"
  double dropout = 0;
  double attention_dropout = 0;
  double activation_dropout = 0;
  double init_std = 0.02;
  bool tie_word_embeddings = true;
  std::optional<int64_t> decoder_start_token_id = 50257;  // empty if config.json has null
  std::optional<int64_t> pad_token_id = 50256;            // empty if config.json has null
  bool use_weighted_layer_sum = false;                    // of WhisperForAudioClassification
  int64_t classifier_proj_size = 256;
  SpecAugment spec_augment;  // of the classes with a decoder
  nn::Labels labels;

  // Returns the length of input_features, which the second convolution halves.
  int64_t frames() const { return 2 * max_source_positions; }

  // Reads config.json for a class with or without a decoder. Throws INVALID_ARGUMENT or UNIMPLEMENTED naming
  // the file, the key, its value and the values that are allowed.
  static WhisperConfig read(const Config& config, bool has_decoder);
};

}  // namespace weft::whisper
