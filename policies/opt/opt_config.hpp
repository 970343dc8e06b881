// The configuration of OPT. Names and defaults are those of Hugging Face's OPTConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/nn/config_values.hpp"

namespace weft::opt {

struct OptConfig {
  int64_t vocab_size = 50272;
  int64_t hidden_size = 768;
  int64_t word_embed_proj_dim = 0;  // read() sets hidden_size if config.json has none
  int64_t num_hidden_layers = 12;
  int64_t ffn_dim = 3072;
  int64_t num_attention_heads = 12;
  int64_t max_position_embeddings = 2048;
  std::string activation_function = "relu";
  double dropout = 0.1;
  double attention_dropout = 0;
  double init_std = 0.02;
  bool do_layer_norm_before = true;      // whether norms are before attention and MLP, or after them
  bool remove_final_layer_norm = false;  // "_remove_final_layer_norm"
  bool layer_norm_elementwise_affine = true;
  bool enable_bias = true;
  bool tie_word_embeddings = true;
  std::optional<int64_t> pad_token_id = 1;  // empty if config.json has null
  nn::Labels labels;

  // Returns whether the embeddings have another width than the blocks.
  bool projects() const { return word_embed_proj_dim != hidden_size; }
  // Returns whether a norm follows the last block.
  bool has_final_norm() const { return do_layer_norm_before && !remove_final_layer_norm; }
  // Returns the row of the embedding that gets no gradient. A negative pad_token_id counts from the end.
  std::optional<int64_t> padding_row() const { return nn::row_of(pad_token_id, vocab_size); }
  // Reads config.json. Throws INVALID_ARGUMENT or UNIMPLEMENTED naming the file, the key, its value and the
  // values that are allowed.
  static OptConfig read(const Config& config);
};

}  // namespace weft::opt
