#include "llama_config.hpp"

#include "weft/nn/config_values.hpp"

namespace weft::llama {

std::optional<int64_t> LlamaConfig::padding_row() const {
  if (!pad_token_id) return std::nullopt;
  return *pad_token_id < 0 ? *pad_token_id + vocab_size : *pad_token_id;
}

LlamaConfig LlamaConfig::read(const Config& config) {
  nn::refuse_unsupported(config, "Llama", "llama");
  LlamaConfig llama;
  llama.vocab_size = nn::positive(config, "vocab_size", llama.vocab_size);
  llama.hidden_size = nn::positive(config, "hidden_size", llama.hidden_size);
  llama.intermediate_size = nn::positive(config, "intermediate_size", llama.intermediate_size);
  llama.num_hidden_layers = nn::num_layers(config, "num_hidden_layers", llama.num_hidden_layers);
  llama.num_attention_heads = nn::positive(config, "num_attention_heads", llama.num_attention_heads);
  llama.num_key_value_heads = nn::positive(config, "num_key_value_heads", llama.num_attention_heads);
  nn::require_multiple(config, "num_attention_heads", llama.num_attention_heads, "num_key_value_heads",
                       llama.num_key_value_heads);
  nn::require_multiple(config, "hidden_size", llama.hidden_size, "num_attention_heads",
                       llama.num_attention_heads);
  llama.head_dim = nn::positive(config, "head_dim", llama.hidden_size / llama.num_attention_heads);
  if (llama.head_dim % 2 != 0) {
    nn::refuse(config,
               "\"head_dim\" is " + std::to_string(llama.head_dim) +
                   (config.has("head_dim") ? "" : " (\"hidden_size\" divided by \"num_attention_heads\")") +
                   ", must be even: rotary positions turn pairs of channels");
  }
  llama.max_position_embeddings =
      nn::positive(config, "max_position_embeddings", llama.max_position_embeddings);
  llama.hidden_act = nn::activation_name(config, "hidden_act", llama.hidden_act);
  llama.rms_norm_eps = nn::positive_real(config, "rms_norm_eps", llama.rms_norm_eps);
  llama.initializer_range = nn::not_negative(config, "initializer_range", llama.initializer_range);
  llama.attention_dropout = nn::probability(config, "attention_dropout", llama.attention_dropout);
  llama.attention_bias = config.flag("attention_bias", llama.attention_bias);
  llama.mlp_bias = config.flag("mlp_bias", llama.mlp_bias);
  llama.tie_word_embeddings = config.flag("tie_word_embeddings", llama.tie_word_embeddings);
  llama.use_cache = config.flag("use_cache", llama.use_cache);
  llama.pad_token_id = nn::padding_token(config);
  if (llama.pad_token_id) nn::token_id(config, "pad_token_id", 0, llama.vocab_size, -llama.vocab_size);
  llama.rotary = nn::RotaryConfig::read(config, llama.max_position_embeddings);
  llama.labels = nn::read_labels(config);
  return llama;
}

}  // namespace weft::llama
