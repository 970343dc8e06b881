// The configuration of BERT. Names and defaults are those of Hugging Face's BertConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/nn/config_values.hpp"

namespace weft::bert {

struct BertConfig {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double classifier_dropout = 0.1;  // read() sets hidden_dropout_prob if config.json has none
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  bool is_decoder = false;  // whether a position attends to itself and those before it only
  bool tie_word_embeddings = true;
  std::optional<int64_t> pad_token_id = 0;  // empty if config.json has null
  nn::Labels labels;

  // Returns the row of the token embedding that gets no gradient. A negative pad_token_id counts from the
  // end.
  std::optional<int64_t> padding_row() const { return nn::row_of(pad_token_id, vocab_size); }
  // Reads config.json. Throws INVALID_ARGUMENT or UNIMPLEMENTED naming the file, the key, its value and the
  // values that are allowed.
  static BertConfig read(const Config& config);
};

}  // namespace weft::bert
