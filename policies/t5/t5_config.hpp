// The keys of config.json that make a T5: names and defaults as in Hugging Face's T5Config, of transformers 4
// and 5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/nn/config_values.hpp"

namespace weft::t5 {

struct T5Config {
  int64_t vocab_size = 32128;
  int64_t d_model = 512;
  int64_t d_kv = 64;  // channels of a head
  int64_t d_ff = 2048;
  int64_t num_layers = 6;          // of the encoder
  int64_t num_decoder_layers = 0;  // num_layers where config.json has none
  int64_t num_heads = 8;
  int64_t relative_attention_num_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double dropout_rate = 0.1;
  double classifier_dropout = 0;  // of token classification
  double layer_norm_epsilon = 1e-6;
  double initializer_factor = 1;
  // "feed_forward_proj" in two; "dense_act_fn" and "is_gated_act" win over it.
  std::string activation = "relu";
  bool gated = false;
  // Hidden states are multiplied by d_model^-0.5 before lm_head. T5 1.1 has no such factor: transformers 4
  // says so with "tie_word_embeddings", 5 with "scale_decoder_outputs".
  bool scale_decoder_outputs = true;
  // lm_head has the weights of the token embedding. Not where either key is false: transformers 5 writes
  // "tie_word_embeddings": true into every T5, that of an untied T5 1.1 too.
  bool tied = true;
  int64_t pad_token_id = 0;
  std::optional<int64_t> decoder_start_token_id;
  nn::Labels labels;

  // Throws INVALID_ARGUMENT or UNIMPLEMENTED naming file, key, value and what is possible.
  static T5Config read(const Config& config);
};

}  // namespace weft::t5
