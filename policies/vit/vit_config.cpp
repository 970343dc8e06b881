#include "vit_config.hpp"

#include "weft/nn/config_values.hpp"

namespace weft::vit {

namespace {

// As in Hugging Face, 0 is the default too.
int64_t size_of_pooler(const Config& config, int64_t hidden_size) {
  const bool given = config.has("pooler_output_size") && config.integer("pooler_output_size") != 0;
  return given ? nn::positive(config, "pooler_output_size", hidden_size) : hidden_size;
}

void check_sizes(const Config& config, const VitConfig& vit) {
  if (vit.grid().area() == 0)
    nn::refuse(config,
               "\"image_size\" is " + config.json("image_size") + ", less than one patch of \"patch_size\" " +
                   std::to_string(vit.patch_size.height) + " x " + std::to_string(vit.patch_size.width));
  if (vit.interpolate_pos_encoding && !(vit.grid().is_square() && vit.patch_size.is_square()))
    nn::refuse(
        config,
        "\"interpolate_pos_encoding\" is true, which needs square patches in a square grid, as in Hugging "
        "Face; \"image_size\" or \"patch_size\" is not square");
}

}  // namespace

VitConfig VitConfig::read(const Config& config) {
  nn::refuse_unsupported(config, "ViT", "vit");
  nn::refuse_flag(config, "is_causal", "ViT", "attention to earlier positions only");
  VitConfig vit;
  vit.hidden_size = nn::positive(config, "hidden_size", vit.hidden_size);
  vit.num_hidden_layers = nn::num_layers(config, "num_hidden_layers", vit.num_hidden_layers);
  vit.num_attention_heads = nn::positive(config, "num_attention_heads", vit.num_attention_heads);
  if (!config.has("head_dim"))
    nn::require_multiple(config, "hidden_size", vit.hidden_size, "num_attention_heads",
                         vit.num_attention_heads);
  vit.head_dim = nn::positive(config, "head_dim", vit.hidden_size / vit.num_attention_heads);
  vit.intermediate_size = nn::positive(config, "intermediate_size", vit.intermediate_size);
  vit.hidden_act = nn::activation_name(config, "hidden_act", vit.hidden_act);
  vit.hidden_dropout_prob = nn::probability(config, "hidden_dropout_prob", vit.hidden_dropout_prob);
  vit.attention_probs_dropout_prob =
      nn::probability(config, "attention_probs_dropout_prob", vit.attention_probs_dropout_prob);
  vit.drop_path_rate = nn::probability(config, "drop_path_rate", vit.drop_path_rate);
  vit.initializer_range = nn::not_negative(config, "initializer_range", vit.initializer_range);
  vit.layer_norm_eps = nn::positive_real(config, "layer_norm_eps", vit.layer_norm_eps);
  vit.image_size = nn::height_and_width(config, "image_size", vit.image_size.height);
  vit.patch_size = nn::height_and_width(config, "patch_size", vit.patch_size.height);
  vit.num_channels = nn::positive(config, "num_channels", vit.num_channels);
  vit.qkv_bias = config.flag("qkv_bias", vit.qkv_bias);
  vit.encoder_stride = nn::positive(config, "encoder_stride", vit.encoder_stride);
  vit.pooler_output_size = size_of_pooler(config, vit.hidden_size);
  vit.pooler_act = nn::activation_name(config, "pooler_act", vit.pooler_act);
  vit.interpolate_pos_encoding = config.flag("interpolate_pos_encoding", vit.interpolate_pos_encoding);
  vit.labels = nn::read_labels(config);
  check_sizes(config, vit);
  return vit;
}

}  // namespace weft::vit
