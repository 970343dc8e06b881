// The configuration of ViT. Names and defaults are those of Hugging Face's ViTConfig.
#pragma once

#include <cstdint>
#include <string>

#include "weft/config.hpp"
#include "weft/nn/classifiers.hpp"
#include "weft/nn/images.hpp"

namespace weft::vit {

struct VitConfig {
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t head_dim = 0;  // read() sets hidden_size / num_attention_heads if config.json has none
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0;
  double attention_probs_dropout_prob = 0;
  // The probability with which training leaves out a branch of the last block, as the key of Hugging Face's
  // other models of images; ViTConfig has none.
  double drop_path_rate = 0;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  nn::HeightWidth image_size = {224, 224};
  nn::HeightWidth patch_size = {16, 16};
  int64_t num_channels = 3;
  bool qkv_bias = true;
  int64_t encoder_stride = 16;
  int64_t pooler_output_size = 0;  // read() sets hidden_size if config.json has none
  std::string pooler_act = "tanh";
  // Whether images of other sizes than image_size are taken, with interpolated positions. In Hugging Face it
  // is an argument of forward.
  bool interpolate_pos_encoding = false;
  nn::Labels labels;

  nn::HeightWidth grid() const { return image_size.over(patch_size); }

  // Reads config.json. Throws INVALID_ARGUMENT or UNIMPLEMENTED naming the file, the key, its value and the
  // values that are allowed.
  static VitConfig read(const Config& config);
};

}  // namespace weft::vit
