#include "vit_config.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using nn::HeightWidth;
using vit::VitConfig;

VitConfig read(const std::string& json) {
  return VitConfig::read(Config::parse(json, "config.json"));
}

TEST(VitConfig, RefusesWhatWeftDoesNotHave) {
  EXPECT_ERROR(read(R"({"output_attentions": true})"), WEFT_UNIMPLEMENTED, "config.json",
               "output_attentions");
  EXPECT_ERROR(read(R"({"is_causal": true})"), WEFT_UNIMPLEMENTED, "is_causal", "ViT", "set it to false");
  EXPECT_EQ(read(R"({"is_causal": false})").hidden_size, 768);
  EXPECT_ERROR(read(R"({"quantization_config": {"bits": 8}})"), WEFT_UNIMPLEMENTED, "quantization_config");
  EXPECT_ERROR(read(R"({"model_type": "deit"})"), WEFT_INVALID_ARGUMENT, "model_type", "deit", "ViT");
}

TEST(VitConfig, RefusesContradictionsNamingTheKeys) {
  EXPECT_ERROR(read(R"({"hidden_size": 10, "num_attention_heads": 3})"), WEFT_INVALID_ARGUMENT, "hidden_size",
               "10", "num_attention_heads", "3");
  EXPECT_ERROR(read(R"({"num_hidden_layers": 0})"), WEFT_INVALID_ARGUMENT, "num_hidden_layers", "at least 1");
  EXPECT_ERROR(read(R"({"num_channels": 0})"), WEFT_INVALID_ARGUMENT, "num_channels", "at least 1");
  EXPECT_ERROR(read(R"({"encoder_stride": 0})"), WEFT_INVALID_ARGUMENT, "encoder_stride", "at least 1");
  EXPECT_ERROR(read(R"({"pooler_output_size": -1})"), WEFT_INVALID_ARGUMENT, "pooler_output_size",
               "at least 1");
  EXPECT_ERROR(read(R"({"hidden_act": "gleu"})"), WEFT_INVALID_ARGUMENT, "hidden_act", "gelu");
  EXPECT_ERROR(read(R"({"pooler_act": "tahn"})"), WEFT_INVALID_ARGUMENT, "pooler_act", "tanh");
  EXPECT_ERROR(read(R"({"hidden_dropout_prob": 1.5})"), WEFT_INVALID_ARGUMENT, "hidden_dropout_prob", "1.5");
  EXPECT_ERROR(read(R"({"attention_probs_dropout_prob": -1})"), WEFT_INVALID_ARGUMENT,
               "attention_probs_dropout_prob");
  EXPECT_ERROR(read(R"({"layer_norm_eps": 0})"), WEFT_INVALID_ARGUMENT, "layer_norm_eps");
  EXPECT_ERROR(read(R"({"initializer_range": -1})"), WEFT_INVALID_ARGUMENT, "initializer_range");
  EXPECT_ERROR(read(R"({"id2label": {}})"), WEFT_INVALID_ARGUMENT, "id2label", "at least 1");
}

TEST(VitConfig, RefusesSizesThatAreNone) {
  for (const char* size :
       {"0", "-3", "\"224\"", "2.5", "[4]", "[4, 4, 4]", "[4, 0]", "[4, \"4\"]", "{}", "true"})
    for (const char* key : {"image_size", "patch_size"})
      EXPECT_ERROR(read(std::string("{\"") + key + "\": " + size + "}"), WEFT_INVALID_ARGUMENT, "config.json",
                   key, "[height, width]");
  EXPECT_ERROR(read(R"({"image_size": [30, 8], "patch_size": [3, 10]})"), WEFT_INVALID_ARGUMENT, "[30,8]",
               "less than one patch", "3 x 10");
}

TEST(VitConfig, InterpolatesSquareGridsOnly) {
  EXPECT_TRUE(read(R"({"interpolate_pos_encoding": true})").interpolate_pos_encoding);
  for (const char* sizes : {R"("image_size": [224, 112])", R"("patch_size": [16, 8])",
                            R"("image_size": [224, 112], "patch_size": [16, 8])"})
    EXPECT_ERROR(read(std::string(R"({"interpolate_pos_encoding": true, )") + sizes + "}"),
                 WEFT_INVALID_ARGUMENT, "interpolate_pos_encoding", "square", "image_size", "patch_size");
}

TEST(VitConfig, HasDefaultsOfHuggingFace) {
  const VitConfig config = read("{}");
  EXPECT_EQ(config.hidden_size, 768);
  EXPECT_EQ(config.num_hidden_layers, 12);
  EXPECT_EQ(config.num_attention_heads, 12);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.intermediate_size, 3072);
  EXPECT_EQ(config.hidden_act, "gelu");
  EXPECT_EQ(config.hidden_dropout_prob, 0);
  EXPECT_EQ(config.attention_probs_dropout_prob, 0);
  EXPECT_EQ(config.initializer_range, 0.02);
  EXPECT_EQ(config.layer_norm_eps, 1e-12);
  EXPECT_EQ(config.image_size, (HeightWidth{224, 224}));
  EXPECT_EQ(config.patch_size, (HeightWidth{16, 16}));
  EXPECT_EQ(config.grid(), (HeightWidth{14, 14}));
  EXPECT_EQ(config.num_channels, 3);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_EQ(config.encoder_stride, 16);
  EXPECT_EQ(config.pooler_output_size, 768);
  EXPECT_EQ(config.pooler_act, "tanh");
  EXPECT_FALSE(config.interpolate_pos_encoding);
  EXPECT_EQ(config.labels.count, 2);
}

TEST(VitConfig, ReadsSizesOfOneNumberOrTwo) {
  const VitConfig config = read(
      R"({"image_size": [30, 20], "patch_size": 3, "head_dim": 5, "hidden_size": 7, "num_attention_heads": 2,
          "pooler_output_size": 0, "id2label": {"0": "a", "1": "b", "2": "c"}})");
  EXPECT_EQ(config.image_size, (HeightWidth{30, 20}));
  EXPECT_EQ(config.patch_size, (HeightWidth{3, 3}));
  EXPECT_EQ(config.grid(), (HeightWidth{10, 6}));
  EXPECT_EQ(config.head_dim, 5);
  EXPECT_EQ(config.pooler_output_size, 7);
  EXPECT_EQ(config.labels.count, 3);
}

}  // namespace

}  // namespace weft::test
