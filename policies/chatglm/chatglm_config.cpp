#include "chatglm_config.hpp"

#include <string>

#include "weft/nn/config_values.hpp"

namespace weft::chatglm {

namespace {

// Refuses what the published code does with other keys than these, and what later models of this model_type
// do.
void refuse_others(const Config& config) {
  nn::refuse_unsupported(config, "ChatGLM2", "chatglm");
  if (config.has("pre_seq_len"))
    nn::refuse_value(config, "pre_seq_len", "ChatGLM2", "trains a prefix of keys and values", "null");
  nn::refuse_flag(config, "prefix_projection", "ChatGLM2", "projects a trained prefix");
  if (config.integer("quantization_bit", 0) != 0)
    nn::refuse_value(config, "quantization_bit", "ChatGLM2", "quantized weights", "0");
  if (config.real("rope_ratio", 1) != 1)
    nn::refuse_value(config, "rope_ratio", "ChatGLM2", "rotary positions of later models", "1");
}

}  // namespace

// Keys that change no result of the published code with PyTorch 2 are not read:
// apply_query_key_layer_scaling, attention_softmax_in_fp32, bias_dropout_fusion, original_rope and
// tie_word_embeddings.
ChatGlmConfig ChatGlmConfig::read(const Config& config) {
  refuse_others(config);
  ChatGlmConfig glm;
  glm.num_layers = nn::num_layers(config, "num_layers", glm.num_layers);
  glm.padded_vocab_size = nn::positive(config, "padded_vocab_size", glm.padded_vocab_size);
  if (const int64_t other = config.integer("vocab_size", glm.padded_vocab_size);
      other != glm.padded_vocab_size)
    nn::refuse(config, "\"vocab_size\" is " + std::to_string(other) +
                           ", but \"padded_vocab_size\", which ChatGLM2 reads, is " +
                           std::to_string(glm.padded_vocab_size) + "; give both the same value");
  glm.hidden_size = nn::positive(config, "hidden_size", glm.hidden_size);
  glm.ffn_hidden_size = nn::positive(config, "ffn_hidden_size", glm.ffn_hidden_size);
  glm.kv_channels = nn::positive(config, "kv_channels", glm.kv_channels);
  if (glm.kv_channels < 2)
    nn::refuse(config, "\"kv_channels\" is 1, must be at least 2: rotary positions turn pairs of channels");
  glm.num_attention_heads = nn::positive(config, "num_attention_heads", glm.num_attention_heads);
  glm.multi_query_attention = config.flag("multi_query_attention", false);
  glm.key_heads = glm.num_attention_heads;
  if (glm.multi_query_attention) {
    glm.key_heads = nn::positive(config, "multi_query_group_num", 1);
    nn::require_multiple(config, "num_attention_heads", glm.num_attention_heads, "multi_query_group_num",
                         glm.key_heads);
  }
  glm.seq_length = nn::positive(config, "seq_length", glm.seq_length);
  glm.hidden_dropout = nn::probability(config, "hidden_dropout", glm.hidden_dropout);
  glm.attention_dropout = nn::probability(config, "attention_dropout", glm.attention_dropout);
  glm.layernorm_epsilon = nn::positive_real(config, "layernorm_epsilon", glm.layernorm_epsilon);
  glm.rmsnorm = config.flag("rmsnorm", true);
  glm.apply_residual_connection_post_layernorm =
      config.flag("apply_residual_connection_post_layernorm", false);
  glm.post_layer_norm = config.flag("post_layer_norm", true);
  glm.add_bias_linear = config.flag("add_bias_linear", false);
  glm.add_qkv_bias = config.flag("add_qkv_bias", false);
  glm.fp32_residual_connection = config.flag("fp32_residual_connection", false);
  return glm;
}

}  // namespace weft::chatglm
