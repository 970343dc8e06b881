#include "bloom_config.hpp"

#include "weft/nn/config_values.hpp"

namespace weft::bloom {

BloomConfig BloomConfig::read(const Config& config) {
  nn::refuse_unsupported(config, "Bloom", "bloom");
  nn::require_causal(config, "Bloom");
  // Hugging Face leaves out the biases after attention and in the MLP if both keys ask for it.
  if (nn::positive(config, "pretraining_tp", 1) > 1)
    nn::refuse_flag(
        config, "slow_but_exact", "Bloom",
        "with \"pretraining_tp\" = " + config.json("pretraining_tp") + ": products in parts, without biases");
  BloomConfig bloom;
  bloom.vocab_size = nn::positive(config, "vocab_size", bloom.vocab_size);
  bloom.hidden_size = nn::positive(config, "hidden_size", {"n_embed"}, bloom.hidden_size);
  bloom.n_layer = nn::num_layers(config, "n_layer", {"num_hidden_layers"}, bloom.n_layer);
  bloom.n_head = nn::positive(config, "n_head", {"num_attention_heads"}, bloom.n_head);
  nn::require_multiple(config, "hidden_size", bloom.hidden_size, "n_head", bloom.n_head);
  bloom.hidden_dropout = nn::probability(config, "hidden_dropout", bloom.hidden_dropout);
  bloom.attention_dropout = nn::probability(config, "attention_dropout", bloom.attention_dropout);
  bloom.classifier_dropout = nn::probability(config, "classifier_dropout", bloom.hidden_dropout);
  bloom.layer_norm_epsilon = nn::positive_real(config, "layer_norm_epsilon", bloom.layer_norm_epsilon);
  bloom.initializer_range = nn::not_negative(config, "initializer_range", bloom.initializer_range);
  bloom.apply_residual_connection_post_layernorm =
      config.flag("apply_residual_connection_post_layernorm", bloom.apply_residual_connection_post_layernorm);
  bloom.tie_word_embeddings = config.flag("tie_word_embeddings", bloom.tie_word_embeddings);
  bloom.pad_token_id = nn::padding_token(config);
  bloom.labels = nn::read_labels(config);
  return bloom;
}

}  // namespace weft::bloom
