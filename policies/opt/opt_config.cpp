#include "opt_config.hpp"

namespace weft::opt {

OptConfig OptConfig::read(const Config& config) {
  nn::refuse_unsupported(config, "OPT", "opt");
  nn::require_causal(config, "OPT");
  nn::refuse_layerdrop(config, "layerdrop", "OPT");
  OptConfig opt;
  opt.vocab_size = nn::positive(config, "vocab_size", opt.vocab_size);
  opt.hidden_size = nn::positive(config, "hidden_size", opt.hidden_size);
  opt.word_embed_proj_dim = nn::positive(config, "word_embed_proj_dim", opt.hidden_size);
  opt.num_hidden_layers = nn::num_layers(config, "num_hidden_layers", opt.num_hidden_layers);
  opt.ffn_dim = nn::positive(config, "ffn_dim", opt.ffn_dim);
  opt.num_attention_heads = nn::positive(config, "num_attention_heads", opt.num_attention_heads);
  nn::require_multiple(config, "hidden_size", opt.hidden_size, "num_attention_heads",
                       opt.num_attention_heads);
  opt.max_position_embeddings = nn::positive(config, "max_position_embeddings", opt.max_position_embeddings);
  opt.activation_function = nn::activation_name(config, "activation_function", opt.activation_function);
  opt.dropout = nn::probability(config, "dropout", opt.dropout);
  opt.attention_dropout = nn::probability(config, "attention_dropout", opt.attention_dropout);
  opt.init_std = nn::initial_deviation(config, opt.init_std);
  opt.do_layer_norm_before = config.flag("do_layer_norm_before", opt.do_layer_norm_before);
  opt.remove_final_layer_norm = config.flag("_remove_final_layer_norm", opt.remove_final_layer_norm);
  opt.layer_norm_elementwise_affine =
      config.flag("layer_norm_elementwise_affine", opt.layer_norm_elementwise_affine);
  opt.enable_bias = config.flag("enable_bias", opt.enable_bias);
  opt.tie_word_embeddings = config.flag("tie_word_embeddings", opt.tie_word_embeddings);
  opt.pad_token_id =
      nn::optional_token_id(config, "pad_token_id", opt.pad_token_id, opt.vocab_size, -opt.vocab_size);
  opt.labels = nn::read_labels(config);
  return opt;
}

}  // namespace weft::opt
