#include <gtest/gtest.h>

#include "bloom_config.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using bloom::BloomConfig;

BloomConfig read(const std::string& json) {
  return BloomConfig::read(Config::parse(json, "config.json"));
}

// Each of the two keys alone changes nothing.
TEST(BloomConfig, RefusesWhatWeftDoesNotHave) {
  EXPECT_ERROR(read(R"({"slow_but_exact": true, "pretraining_tp": 4})"), WEFT_UNIMPLEMENTED, "config.json",
               "slow_but_exact", "pretraining_tp", "4", "Bloom");
  EXPECT_EQ(read(R"({"slow_but_exact": true, "pretraining_tp": 1})").n_layer, 2);
  EXPECT_EQ(read(R"({"pretraining_tp": 4})").n_layer, 2);
  EXPECT_ERROR(read(R"({"is_causal": false})"), WEFT_UNIMPLEMENTED, "is_causal", "Bloom");
  EXPECT_ERROR(read(R"({"output_hidden_states": true})"), WEFT_UNIMPLEMENTED, "output_hidden_states",
               "Bloom");
  EXPECT_ERROR(read(R"({"model_type": "opt"})"), WEFT_INVALID_ARGUMENT, "model_type", "opt");
}

TEST(BloomConfig, RefusesContradictionsNamingTheKeys) {
  EXPECT_ERROR(read(R"({"hidden_size": 10, "n_head": 3})"), WEFT_INVALID_ARGUMENT, "hidden_size", "10",
               "n_head", "3");
  EXPECT_ERROR(read(R"({"hidden_size": 8, "n_embed": 16})"), WEFT_INVALID_ARGUMENT, "hidden_size", "n_embed");
  EXPECT_ERROR(read(R"({"n_layer": 2, "num_hidden_layers": 3})"), WEFT_INVALID_ARGUMENT, "n_layer",
               "num_hidden_layers");
  EXPECT_ERROR(read(R"({"attention_dropout": 1})"), WEFT_INVALID_ARGUMENT, "attention_dropout");
}

TEST(BloomConfig, HasDefaultsOfHuggingFace) {
  const BloomConfig config = read("{}");
  EXPECT_EQ(config.vocab_size, 250880);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.n_layer, 2);
  EXPECT_EQ(config.n_head, 8);
  EXPECT_EQ(config.hidden_dropout, 0);
  EXPECT_EQ(config.attention_dropout, 0);
  EXPECT_EQ(config.layer_norm_epsilon, 1e-5);
  EXPECT_EQ(config.initializer_range, 0.02);
  EXPECT_FALSE(config.apply_residual_connection_post_layernorm || config.pad_token_id);
  EXPECT_TRUE(config.tie_word_embeddings);
}

// The config.json of bloom-560m as transformers 4.20 wrote it, and as 5 does.
TEST(BloomConfig, ReadsFilesOfTransformers4And5) {
  const BloomConfig old =
      read(R"({"apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0,
      "attention_softmax_in_fp32": true, "architectures": ["BloomForCausalLM"], "bias_dropout_fusion": true,
      "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3, "hidden_dropout": 0.0,
      "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": true,
      "model_type": "bloom", "n_embed": 1024, "n_inner": null, "n_layer": 24, "num_attention_heads": 16,
      "offset_alibi": 100, "pretraining_tp": 1, "seq_length": 2048, "skip_bias_add": true,
      "transformers_version": "4.20.0", "use_cache": true, "vocab_size": 250880})");
  const BloomConfig now = read(R"({"hidden_size": 1024, "n_head": 16, "n_layer": 24, "pad_token_id": 3,
      "model_type": "bloom", "slow_but_exact": false, "tie_word_embeddings": true,
      "transformers_version": "5.23.0"})");
  for (const BloomConfig& config : {old, now}) {
    EXPECT_EQ(config.hidden_size, 1024);
    EXPECT_EQ(config.n_layer, 24);
    EXPECT_EQ(config.n_head, 16);
    EXPECT_EQ(config.pad_token_id, 3);
  }
}

TEST(BloomConfig, DropsOutClassifiersAsBlocksUnlessTold) {
  EXPECT_EQ(read(R"({"hidden_dropout": 0.25})").classifier_dropout, 0.25);
  EXPECT_EQ(read(R"({"hidden_dropout": 0.25, "classifier_dropout": 0.5})").classifier_dropout, 0.5);
}

}  // namespace

}  // namespace weft::test
