// The configuration of ChatGLM2. Names and defaults are those of the published ChatGLMConfig.
#pragma once

#include <cstdint>

#include "weft/config.hpp"

namespace weft::chatglm {

struct ChatGlmConfig {
  int64_t num_layers = 28;
  int64_t padded_vocab_size = 65024;
  int64_t hidden_size = 4096;
  int64_t ffn_hidden_size = 13696;
  int64_t kv_channels = 128;  // channels of a head
  int64_t num_attention_heads = 32;
  int64_t seq_length = 2048;
  bool multi_query_attention = false;
  int64_t key_heads = 32;  // "multi_query_group_num" with multi_query_attention, else num_attention_heads
  double hidden_dropout = 0;
  double attention_dropout = 0;
  double layernorm_epsilon = 1e-5;
  bool rmsnorm = true;  // false: LayerNorm
  bool apply_residual_connection_post_layernorm = false;
  bool post_layer_norm = true;
  bool add_bias_linear = false;
  bool add_qkv_bias = false;
  bool fp32_residual_connection = false;

  // Reads config.json. Throws INVALID_ARGUMENT or UNIMPLEMENTED naming the file, the key, its value and the
  // values that are allowed.
  static ChatGlmConfig read(const Config& config);
};

}  // namespace weft::chatglm
