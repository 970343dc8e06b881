#include "gpt2_config.hpp"

#include "weft/nn/config_values.hpp"

namespace weft::gpt2 {

namespace {

SummaryConfig read_summary(const Config& config) {
  SummaryConfig summary;
  const std::string type =
      nn::one_of(config, "summary_type", "cls_index", {"last", "first", "mean", "cls_index"});
  summary.type = type == "last"    ? SummaryConfig::Type::kLast
                 : type == "first" ? SummaryConfig::Type::kFirst
                 : type == "mean"  ? SummaryConfig::Type::kMean
                                   : SummaryConfig::Type::kClsIndex;
  summary.use_projection = config.flag("summary_use_proj", true);
  summary.project_to_labels = config.flag("summary_proj_to_labels", true);
  if (!config.text("summary_activation", "").empty())
    summary.activation = nn::activation_name(config, "summary_activation", "");
  summary.first_dropout = nn::probability(config, "summary_first_dropout", 0.1);
  summary.last_dropout = nn::probability(config, "summary_last_dropout", 0);
  return summary;
}

}  // namespace

Gpt2Config Gpt2Config::read(const Config& config) {
  nn::refuse_unsupported(config, "GPT-2", "gpt2");
  nn::require_causal(config, "GPT-2");
  nn::refuse_flag(config, "add_cross_attention", "GPT-2", "attention over an encoder");
  nn::refuse_flag(config, "is_encoder_decoder", "GPT-2", "an encoder and a decoder");
  Gpt2Config gpt2;
  gpt2.vocab_size = nn::positive(config, "vocab_size", gpt2.vocab_size);
  gpt2.n_positions = nn::positive(config, "n_positions", {"max_position_embeddings"}, gpt2.n_positions);
  gpt2.n_embd = nn::positive(config, "n_embd", {"hidden_size"}, gpt2.n_embd);
  gpt2.n_layer = nn::num_layers(config, "n_layer", {"num_hidden_layers"}, gpt2.n_layer);
  gpt2.n_head = nn::positive(config, "n_head", {"num_attention_heads"}, gpt2.n_head);
  gpt2.n_inner = nn::positive(config, "n_inner", 4 * gpt2.n_embd);
  gpt2.activation_function = nn::activation_name(config, "activation_function", gpt2.activation_function);
  gpt2.resid_pdrop = nn::probability(config, "resid_pdrop", gpt2.resid_pdrop);
  gpt2.embd_pdrop = nn::probability(config, "embd_pdrop", gpt2.embd_pdrop);
  gpt2.attn_pdrop = nn::probability(config, "attn_pdrop", gpt2.attn_pdrop);
  const char* classifier = config.has("classifier_dropout") ? "classifier_dropout" : "hidden_dropout";
  gpt2.classifier_dropout = nn::probability(config, classifier, gpt2.classifier_dropout);
  gpt2.layer_norm_epsilon = nn::positive_real(config, "layer_norm_epsilon", gpt2.layer_norm_epsilon);
  gpt2.initializer_range = nn::not_negative(config, "initializer_range", gpt2.initializer_range);
  gpt2.scale_attn_weights = config.flag("scale_attn_weights", true);
  gpt2.scale_attn_by_inverse_layer_idx = config.flag("scale_attn_by_inverse_layer_idx", false);
  gpt2.reorder_and_upcast_attn = config.flag("reorder_and_upcast_attn", false);
  gpt2.tie_word_embeddings = config.flag("tie_word_embeddings", true);
  gpt2.pad_token_id = nn::padding_token(config);
  gpt2.labels = nn::read_labels(config);
  gpt2.summary = read_summary(config);
  nn::require_multiple(config, "n_embd", gpt2.n_embd, "n_head", gpt2.n_head);
  return gpt2;
}

}  // namespace weft::gpt2
