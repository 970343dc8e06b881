// The configuration of Llama. Names and defaults are those of Hugging Face's LlamaConfig in transformers 4
// and 5.
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
  int64_t num_key_value_heads = 0;  // read() sets num_attention_heads if config.json has none
  int64_t head_dim = 0;             // read() sets hidden_size / num_attention_heads if config.json has none
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

  // Returns the row of the embedding that belongs to the padding token and gets no gradient from it. A
  // negative pad_token_id counts from the end.
  std::optional<int64_t> padding_row() const;

  // Reads config.json. Throws INVALID_ARGUMENT or UNIMPLEMENTED naming the file, the key, its value and the
  // values that are allowed.
  static LlamaConfig read(const Config& config);
};

}  // namespace weft::llama
