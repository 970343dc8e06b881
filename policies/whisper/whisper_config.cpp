#include "whisper_config.hpp"

#include "weft/nn/config_values.hpp"

namespace weft::whisper {

namespace {

// Reads a number of attention heads, which must divide d_model.
int64_t heads(const Config& config, const char* key, nn::Aliases aliases, int64_t otherwise,
              int64_t d_model) {
  const int64_t heads = nn::positive(config, key, aliases, otherwise);
  nn::require_multiple(config, "d_model", d_model, key, heads);
  return heads;
}

// Reads mask_time_* or mask_feature_*, whose spans lie on an axis of `positions`. `axis` names it in
// messages.
Spans spans(const Config& config, const std::string& prefix, Spans otherwise, bool on, int64_t positions,
            const std::string& axis) {
  const std::string share = prefix + "_prob", length = prefix + "_length", least = prefix + "_min_masks";
  Spans spans;
  spans.share = nn::not_negative(config, share, otherwise.share);
  if (spans.share > 1) nn::refuse(config, "\"" + share + "\" is " + config.json(share) + ", must be 0 to 1");
  spans.length = nn::positive(config, length, otherwise.length);
  spans.least = config.integer(least, otherwise.least);
  if (spans.least < 0)
    nn::refuse(config, "\"" + least + "\" is " + config.json(least) + ", must not be negative");
  if (on && spans.share > 0 && spans.length > positions)
    nn::refuse(config, "\"" + length + "\" is " + std::to_string(spans.length) + ", more than the " +
                           std::to_string(positions) + " " + axis);
  return spans;
}

void read_spec_augment(const Config& config, WhisperConfig& whisper) {
  SpecAugment& augment = whisper.spec_augment;
  augment.on = config.flag("apply_spec_augment", augment.on);
  augment.time = spans(config, "mask_time", augment.time, augment.on, whisper.frames(),
                       "frames (2 x \"max_source_positions\")");
  augment.features = spans(config, "mask_feature", augment.features, augment.on, whisper.num_mel_bins,
                           "mel bins (\"num_mel_bins\")");
}

// Reads what the head of WhisperForAudioClassification needs, whose loss is always that of one label.
void read_classifier(const Config& config, WhisperConfig& whisper) {
  whisper.use_weighted_layer_sum = config.flag("use_weighted_layer_sum", whisper.use_weighted_layer_sum);
  whisper.classifier_proj_size = nn::positive(config, "classifier_proj_size", whisper.classifier_proj_size);
  whisper.labels = nn::read_labels(config);
  nn::require_cross_entropy(whisper.labels, "WhisperForAudioClassification");
  whisper.labels.problem = "single_label_classification";
}

}  // namespace

// Hugging Face reads "scale_embedding" but uses it nowhere, so both its values mean the same. The keys of
// generation ("suppress_tokens", "median_filter_width") do not concern a forward pass.
WhisperConfig WhisperConfig::read(const Config& config, bool has_decoder) {
  nn::refuse_unsupported(config, "Whisper", "whisper");
  nn::refuse_one_attention(config, "Whisper");
  nn::refuse_layerdrop(config, "encoder_layerdrop", "Whisper");
  nn::refuse_layerdrop(config, "decoder_layerdrop", "Whisper");
  WhisperConfig whisper;
  whisper.num_mel_bins = nn::positive(config, "num_mel_bins", whisper.num_mel_bins);
  whisper.d_model = nn::positive(config, "d_model", {"hidden_size"}, whisper.d_model);
  if (whisper.d_model % 2 != 0 || whisper.d_model < 4)
    nn::refuse(config,
               "\"d_model\" is " + std::to_string(whisper.d_model) +
                   ", must be even and at least 4, because the positions of the encoder are pairs of sines "
                   "and cosines");
  whisper.encoder_layers =
      nn::num_layers(config, "encoder_layers", {"num_hidden_layers"}, whisper.encoder_layers);
  whisper.encoder_attention_heads =
      heads(config, "encoder_attention_heads", {"num_attention_heads", "num_key_value_heads"},
            whisper.encoder_attention_heads, whisper.d_model);
  whisper.encoder_ffn_dim = nn::positive(config, "encoder_ffn_dim", whisper.encoder_ffn_dim);
  whisper.max_source_positions = nn::positive(config, "max_source_positions", whisper.max_source_positions);
  whisper.activation_function =
      nn::activation_name(config, "activation_function", whisper.activation_function);
  whisper.dropout = nn::probability(config, "dropout", whisper.dropout);
  whisper.attention_dropout = nn::probability(config, "attention_dropout", whisper.attention_dropout);
  whisper.activation_dropout = nn::probability(config, "activation_dropout", whisper.activation_dropout);
  whisper.init_std = nn::initial_deviation(config, whisper.init_std);
  if (!has_decoder) {
    read_classifier(config, whisper);
    return whisper;
  }
  whisper.vocab_size = nn::positive(config, "vocab_size", whisper.vocab_size);
  whisper.decoder_layers = nn::num_layers(config, "decoder_layers", whisper.decoder_layers);
  whisper.decoder_attention_heads =
      heads(config, "decoder_attention_heads", {}, whisper.decoder_attention_heads, whisper.d_model);
  whisper.decoder_ffn_dim = nn::positive(config, "decoder_ffn_dim", whisper.decoder_ffn_dim);
  whisper.max_target_positions = nn::positive(config, "max_target_positions", whisper.max_target_positions);
  whisper.tie_word_embeddings = config.flag("tie_word_embeddings", whisper.tie_word_embeddings);
  whisper.decoder_start_token_id = nn::optional_token_id(config, "decoder_start_token_id",
                                                         whisper.decoder_start_token_id, whisper.vocab_size);
  whisper.pad_token_id =
      nn::optional_token_id(config, "pad_token_id", whisper.pad_token_id, whisper.vocab_size);
  read_spec_augment(config, whisper);
  return whisper;
}

}  // namespace weft::whisper
