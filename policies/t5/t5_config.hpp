// The configuration of T5. Names and defaults are those of Hugging Face's T5Config in transformers 4 and 5.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/nn/config_values.hpp"

namespace weft::t5 {

struct T5Config {
  int64_t vocab_size = 32128;
  int64_t d_model = 512;
  int64_t d_kv = 64;  // head size
  int64_t d_ff = 2048;
  int64_t num_layers = 6;          // of the encoder
  int64_t num_decoder_layers = 0;  // read() sets num_layers if config.json has none
  int64_t num_heads = 8;
  int64_t relative_attention_num_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double dropout_rate = 0.1;
  double classifier_dropout = 0;  // for T5ForTokenClassification
  double layer_norm_epsilon = 1e-6;
  double initializer_factor = 1;
  // The two parts of "feed_forward_proj"; the keys "dense_act_fn" and "is_gated_act" take precedence.
  std::string activation = "relu";
  bool gated = false;
  // Whether the hidden states are multiplied by d_model^-0.5 before lm_head. T5 1.1 has no such factor:
  // transformers 4 expresses that by "tie_word_embeddings", transformers 5 by "scale_decoder_outputs".
  bool scale_decoder_outputs = true;
  // Whether lm_head shares the weight of the token embedding: only if neither key is false, because
  // transformers 5 writes "tie_word_embeddings": true into every T5, also into an untied T5 1.1.
  bool tied = true;
  int64_t pad_token_id = 0;
  std::optional<int64_t> decoder_start_token_id;
  nn::Labels labels;

  // Reads config.json. Throws INVALID_ARGUMENT or UNIMPLEMENTED naming the file, the key, its value and the
  // values that are allowed.
  static T5Config read(const Config& config);
};

}  // namespace weft::t5
