// The keys of config.json that make a Llama: names and defaults as in Hugging Face's LlamaConfig, of
// transformers 4 and 5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/config.hpp"
#include "weft/nn/classifiers.hpp"
#include "weft/nn/rotary.hpp"

namespace weft::llama {

struct LlamaConfig {
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 0;  // num_attention_heads where config.json has none
  int64_t head_dim = 0;             // hidden_size / num_attention_heads where config.json has none
  int64_t max_position_embeddings = 2048;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  double attention_dropout = 0;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  bool use_cache = true;
  std::optional<int64_t> pad_token_id;
  nn::RotaryConfig rotary;
  nn::Labels labels;

  // The row of the embedding that padding has, which gets no gradient from there; negative ids count from the
  // end.
  std::optional<int64_t> padding_row() const;

  // Throws INVALID_ARGUMENT or UNIMPLEMENTED naming file, key, value and what is possible.
  static LlamaConfig read(const Config& config);
};

}  // namespace weft::llama
