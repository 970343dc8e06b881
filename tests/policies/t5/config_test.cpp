#include "t5_config.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using t5::T5Config;

T5Config read(const std::string& json) {
  return T5Config::read(Config::parse(json, "config.json"));
}

TEST(T5Config, RefusesWhatWeftDoesNotHave) {
  EXPECT_ERROR(read(R"({"output_attentions": true})"), WEFT_UNIMPLEMENTED, "config.json",
               "output_attentions");
  for (const std::string value : {"true", "false"})
    EXPECT_ERROR(read("{\"is_causal\": " + value + "}"), WEFT_UNIMPLEMENTED, "is_causal", value, "T5",
                 "set it to null");
  EXPECT_EQ(read(R"({"is_causal": null})").d_model, 512);
  EXPECT_ERROR(read(R"({"tie_encoder_decoder": true})"), WEFT_UNIMPLEMENTED, "tie_encoder_decoder", "T5");
  EXPECT_ERROR(read(R"({"quantization_config": {"bits": 8}})"), WEFT_UNIMPLEMENTED, "quantization_config");
  EXPECT_ERROR(read(R"({"model_type": "mt5"})"), WEFT_INVALID_ARGUMENT, "model_type", "mt5", "T5");
}

TEST(T5Config, RefusesContradictionsNamingTheKeys) {
  EXPECT_ERROR(read(R"({"d_model": 64, "hidden_size": 96})"), WEFT_INVALID_ARGUMENT, "d_model", "hidden_size",
               "64", "96");
  EXPECT_ERROR(read(R"({"num_layers": 0})"), WEFT_INVALID_ARGUMENT, "num_layers", "at least 1");
  EXPECT_ERROR(read(R"({"num_decoder_layers": 0})"), WEFT_INVALID_ARGUMENT, "num_decoder_layers",
               "at least 1");
  EXPECT_ERROR(read(R"({"feed_forward_proj": "silu-gated"})"), WEFT_INVALID_ARGUMENT, "feed_forward_proj",
               "silu-gated", "gated-gelu");
  EXPECT_ERROR(read(R"({"feed_forward_proj": "gated-"})"), WEFT_INVALID_ARGUMENT, "feed_forward_proj");
  EXPECT_ERROR(read(R"({"feed_forward_proj": "gated-gelu_nwe"})"), WEFT_INVALID_ARGUMENT, "feed_forward_proj",
               "gelu_new");
  EXPECT_ERROR(read(R"({"dense_act_fn": "rleu"})"), WEFT_INVALID_ARGUMENT, "dense_act_fn", "relu");
  EXPECT_ERROR(read(R"({"dropout_rate": 1.5})"), WEFT_INVALID_ARGUMENT, "dropout_rate", "1.5");
  EXPECT_ERROR(read(R"({"vocab_size": 10, "pad_token_id": 10})"), WEFT_INVALID_ARGUMENT, "pad_token_id",
               "0 to 9");
  EXPECT_ERROR(read(R"({"vocab_size": 10, "decoder_start_token_id": -1})"), WEFT_INVALID_ARGUMENT,
               "decoder_start_token_id", "0 to 9");
}

// With fewer than 4 buckets, one direction of an encoder has no bucket for an exact distance.
TEST(T5Config, RefusesBucketsThatHoldNoDistance) {
  EXPECT_ERROR(read(R"({"relative_attention_num_buckets": 3})"), WEFT_INVALID_ARGUMENT,
               "relative_attention_num_buckets", "at least 4");
  EXPECT_ERROR(read(R"({"relative_attention_max_distance": 16})"), WEFT_INVALID_ARGUMENT,
               "relative_attention_max_distance", "16", "half");
  EXPECT_EQ(read(R"({"relative_attention_max_distance": 17})").relative_attention_max_distance, 17);
}

TEST(T5Config, HasDefaultsOfHuggingFace) {
  const T5Config config = read("{}");
  EXPECT_EQ(config.vocab_size, 32128);
  EXPECT_EQ(config.d_model, 512);
  EXPECT_EQ(config.d_kv, 64);
  EXPECT_EQ(config.d_ff, 2048);
  EXPECT_EQ(config.num_layers, 6);
  EXPECT_EQ(config.num_decoder_layers, 6);
  EXPECT_EQ(config.num_heads, 8);
  EXPECT_EQ(config.relative_attention_num_buckets, 32);
  EXPECT_EQ(config.relative_attention_max_distance, 128);
  EXPECT_EQ(config.dropout_rate, 0.1);
  EXPECT_EQ(config.classifier_dropout, 0);
  EXPECT_EQ(config.layer_norm_epsilon, 1e-6);
  EXPECT_EQ(config.activation, "relu");
  EXPECT_FALSE(config.gated);
  EXPECT_TRUE(config.tied);
  EXPECT_TRUE(config.scale_decoder_outputs);
  EXPECT_EQ(config.pad_token_id, 0);
  EXPECT_FALSE(config.decoder_start_token_id);
  EXPECT_EQ(config.labels.count, 2);
}

TEST(T5Config, TakesOtherNamesOfKeys) {
  const T5Config config = read(
      R"({"hidden_size": 96, "head_dim": 7, "num_attention_heads": 3, "num_hidden_layers": 2,
          "decoder_start_token_id": 4, "id2label": {"0": "a", "1": "b", "2": "c"}})");
  EXPECT_EQ(config.d_model, 96);
  EXPECT_EQ(config.d_kv, 7);
  EXPECT_EQ(config.num_heads, 3);
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.num_decoder_layers, 2);
  EXPECT_EQ(config.decoder_start_token_id, 4);
  EXPECT_EQ(config.labels.count, 3);
}

TEST(T5Config, ReadsTheFeedForwardInBothForms) {
  EXPECT_EQ(read(R"({"feed_forward_proj": "gated-gelu"})").activation, "gelu_new");
  EXPECT_TRUE(read(R"({"feed_forward_proj": "gated-gelu"})").gated);
  EXPECT_EQ(read(R"({"feed_forward_proj": "gated-silu"})").activation, "silu");
  EXPECT_EQ(read(R"({"feed_forward_proj": "gelu"})").activation, "gelu");
  EXPECT_FALSE(read(R"({"feed_forward_proj": "gelu"})").gated);
  // transformers writes these beside feed_forward_proj, and they take precedence.
  const T5Config config =
      read(R"({"feed_forward_proj": "relu", "dense_act_fn": "silu", "is_gated_act": true})");
  EXPECT_EQ(config.activation, "silu");
  EXPECT_TRUE(config.gated);
}

TEST(T5Config, TiesAndScalesAsBothVersionsOfTransformersSay) {
  const auto both = [](const std::string& json) {
    const T5Config config = read(json);
    return std::pair(config.tied, config.scale_decoder_outputs);
  };
  EXPECT_EQ(both(R"({"tie_word_embeddings": true})"), std::pair(true, true));
  EXPECT_EQ(both(R"({"tie_word_embeddings": false})"), std::pair(false, false));
  EXPECT_EQ(both(R"({"tie_word_embeddings": true, "scale_decoder_outputs": false})"),
            std::pair(false, false));
  EXPECT_EQ(both(R"({"tie_word_embeddings": false, "scale_decoder_outputs": true})"), std::pair(false, true));
  EXPECT_EQ(both(R"({"scale_decoder_outputs": true})"), std::pair(true, true));
}

}  // namespace

}  // namespace weft::test
