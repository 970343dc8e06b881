#include "llama_config.hpp"

#include "base/text.hpp"
#include "weft/nn/config_values.hpp"

namespace weft::llama {

namespace {

void require_multiple(const Config& config, const char* key, int64_t value, const char* of, int64_t divisor) {
  if (value % divisor == 0) return;
  fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, which \"{}\" = {} does not divide", config.origin(), key,
       value, of, divisor);
}

void check(const Config& config, const LlamaConfig& llama) {
  require_multiple(config, "num_attention_heads", llama.num_attention_heads, "num_key_value_heads",
                   llama.num_key_value_heads);
  if (llama.head_dim % 2 != 0) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: \"head_dim\" is {}{}, must be even: rotary positions turn pairs of channels", config.origin(),
         llama.head_dim,
         config.has("head_dim") ? "" : " (\"hidden_size\" divided by \"num_attention_heads\")");
  }
  if (!(llama.rms_norm_eps > 0) || !(llama.initializer_range >= 0)) {
    fail(
        WEFT_INVALID_ARGUMENT,
        "{}: \"rms_norm_eps\" is {} and \"initializer_range\" {}; the first must be positive, the second not "
        "negative",
        config.origin(), llama.rms_norm_eps, llama.initializer_range);
  }
  const int64_t padding = llama.pad_token_id.value_or(0), vocabulary = llama.vocab_size;
  if (padding < -vocabulary || padding >= vocabulary) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"pad_token_id\" is {}, must be {} to {} with \"vocab_size\" {}",
         config.origin(), padding, -vocabulary, vocabulary - 1, vocabulary);
  }
}

}  // namespace

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
  llama.num_hidden_layers = nn::positive(config, "num_hidden_layers", llama.num_hidden_layers);
  llama.num_attention_heads = nn::positive(config, "num_attention_heads", llama.num_attention_heads);
  llama.num_key_value_heads = nn::positive(config, "num_key_value_heads", llama.num_attention_heads);
  require_multiple(config, "hidden_size", llama.hidden_size, "num_attention_heads",
                   llama.num_attention_heads);
  llama.head_dim = nn::positive(config, "head_dim", llama.hidden_size / llama.num_attention_heads);
  llama.max_position_embeddings =
      nn::positive(config, "max_position_embeddings", llama.max_position_embeddings);
  llama.hidden_act = nn::activation_name(config, "hidden_act", llama.hidden_act);
  llama.rms_norm_eps = config.real("rms_norm_eps", llama.rms_norm_eps);
  llama.initializer_range = config.real("initializer_range", llama.initializer_range);
  llama.attention_dropout = nn::probability(config, "attention_dropout", llama.attention_dropout);
  llama.attention_bias = config.flag("attention_bias", llama.attention_bias);
  llama.mlp_bias = config.flag("mlp_bias", llama.mlp_bias);
  llama.tie_word_embeddings = config.flag("tie_word_embeddings", llama.tie_word_embeddings);
  llama.use_cache = config.flag("use_cache", llama.use_cache);
  llama.pad_token_id = nn::padding_token(config);
  llama.rotary = nn::RotaryConfig::read(config, llama.max_position_embeddings);
  llama.labels = nn::read_labels(config);
  check(config, llama);
  return llama;
}

}  // namespace weft::llama
