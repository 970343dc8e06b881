#include "t5_config.hpp"

#include <string_view>

namespace weft::t5 {

namespace {

// Parses feed_forward_proj: "relu", "gated-silu". As in Hugging Face, "gated-gelu" is gelu_new.
void read_feed_forward(const Config& config, T5Config& t5) {
  const std::string form = config.text("feed_forward_proj", "relu");
  constexpr std::string_view kGated = "gated-";
  t5.gated = form.starts_with(kGated);
  t5.activation = t5.gated ? form.substr(kGated.size()) : form;
  if (t5.activation.empty() || t5.activation.find('-') != std::string::npos) {
    nn::refuse(config, "\"feed_forward_proj\" is \"" + form +
                           "\", must be an activation (\"relu\") or \"gated-\" and one (\"gated-gelu\")");
  }
  if (form == "gated-gelu") t5.activation = "gelu_new";
  t5.gated = config.flag("is_gated_act", t5.gated);
  const bool own = config.has("dense_act_fn");
  const Config named = own ? config : config.with("feed_forward_proj", t5.activation);
  t5.activation = nn::activation_name(named, own ? "dense_act_fn" : "feed_forward_proj", t5.activation);
}

void read_buckets(const Config& config, T5Config& t5) {
  const int64_t buckets = config.integer("relative_attention_num_buckets", t5.relative_attention_num_buckets);
  const int64_t distance =
      config.integer("relative_attention_max_distance", t5.relative_attention_max_distance);
  if (buckets < 4 || distance <= buckets / 2) {
    nn::refuse(config, "\"relative_attention_num_buckets\" is " + std::to_string(buckets) +
                           " and \"relative_attention_max_distance\" " + std::to_string(distance) +
                           "; the first must be at least 4, the second more than half of the first");
  }
  t5.relative_attention_num_buckets = buckets;
  t5.relative_attention_max_distance = distance;
}

}  // namespace

T5Config T5Config::read(const Config& config) {
  nn::refuse_unsupported(config, "T5", "t5");
  nn::refuse_one_attention(config, "T5");
  T5Config t5;
  t5.vocab_size = nn::positive(config, "vocab_size", t5.vocab_size);
  t5.d_model = nn::positive(config, "d_model", {"hidden_size"}, t5.d_model);
  t5.d_kv = nn::positive(config, "d_kv", {"head_dim"}, t5.d_kv);
  t5.d_ff = nn::positive(config, "d_ff", t5.d_ff);
  t5.num_layers = nn::num_layers(config, "num_layers", {"num_hidden_layers"}, t5.num_layers);
  t5.num_decoder_layers = nn::num_layers(config, "num_decoder_layers", t5.num_layers);
  t5.num_heads = nn::positive(config, "num_heads", {"num_attention_heads"}, t5.num_heads);
  read_buckets(config, t5);
  t5.dropout_rate = nn::probability(config, "dropout_rate", t5.dropout_rate);
  t5.classifier_dropout = nn::probability(config, "classifier_dropout", t5.classifier_dropout);
  t5.layer_norm_epsilon = nn::positive_real(config, "layer_norm_epsilon", t5.layer_norm_epsilon);
  t5.initializer_factor = nn::not_negative(config, "initializer_factor", t5.initializer_factor);
  read_feed_forward(config, t5);
  const bool tied = config.flag("tie_word_embeddings", true);
  t5.scale_decoder_outputs = config.flag("scale_decoder_outputs", tied);
  t5.tied = tied && t5.scale_decoder_outputs;
  t5.pad_token_id = nn::token_id(config, "pad_token_id", t5.pad_token_id, t5.vocab_size);
  t5.decoder_start_token_id =
      nn::optional_token_id(config, "decoder_start_token_id", std::nullopt, t5.vocab_size);
  t5.labels = nn::read_labels(config);
  return t5;
}

}  // namespace weft::t5
