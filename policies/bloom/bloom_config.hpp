// The configuration of Bloom. Names and defaults are those of Hugging Face's BloomConfig.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/config.hpp"
#include "weft/nn/classifiers.hpp"

namespace weft::bloom {

struct BloomConfig {
  int64_t vocab_size = 250880;
  int64_t hidden_size = 64;
  int64_t n_layer = 2;
  int64_t n_head = 8;
  double hidden_dropout = 0;
  double attention_dropout = 0;
  double classifier_dropout = 0;  // read() sets hidden_dropout if config.json has none
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  // Whether what attention and MLP add is added to the output of the norm before them, not to its input.
  bool apply_residual_connection_post_layernorm = false;
  bool tie_word_embeddings = true;
  std::optional<int64_t> pad_token_id;
  nn::Labels labels;

  // Reads config.json. Throws INVALID_ARGUMENT or UNIMPLEMENTED naming the file, the key, its value and the
  // values that are allowed.
  static BloomConfig read(const Config& config);
};

}  // namespace weft::bloom
