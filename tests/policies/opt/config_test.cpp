#include <gtest/gtest.h>

#include "opt_config.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using opt::OptConfig;

OptConfig read(const std::string& json) {
  return OptConfig::read(Config::parse(json, "config.json"));
}

TEST(OptConfig, RefusesWhatWeftDoesNotHave) {
  EXPECT_ERROR(read(R"({"layerdrop": 0.1})"), WEFT_UNIMPLEMENTED, "config.json", "layerdrop", "0.1", "OPT",
               "set it to 0");
  EXPECT_ERROR(read(R"({"is_causal": false})"), WEFT_UNIMPLEMENTED, "is_causal", "OPT");
  EXPECT_ERROR(read(R"({"output_attentions": true})"), WEFT_UNIMPLEMENTED, "output_attentions", "OPT");
  EXPECT_ERROR(read(R"({"quantization_config": {"bits": 4}})"), WEFT_UNIMPLEMENTED, "quantization_config");
  EXPECT_ERROR(read(R"({"model_type": "gpt2"})"), WEFT_INVALID_ARGUMENT, "model_type", "gpt2");
  EXPECT_EQ(read(R"({"layerdrop": 0.0})").num_hidden_layers, 12);
}

TEST(OptConfig, RefusesContradictionsNamingTheKeys) {
  EXPECT_ERROR(read(R"({"hidden_size": 10, "num_attention_heads": 3})"), WEFT_INVALID_ARGUMENT, "hidden_size",
               "10", "num_attention_heads", "3");
  EXPECT_ERROR(read(R"({"activation_function": "rellu"})"), WEFT_INVALID_ARGUMENT, "activation_function",
               "relu");
  EXPECT_ERROR(read(R"({"vocab_size": 7, "pad_token_id": 7})"), WEFT_INVALID_ARGUMENT, "pad_token_id", "7",
               "-7 to 6");
  EXPECT_ERROR(read(R"({"word_embed_proj_dim": 0})"), WEFT_INVALID_ARGUMENT, "word_embed_proj_dim",
               "at least 1");
  EXPECT_ERROR(read(R"({"dropout": 1})"), WEFT_INVALID_ARGUMENT, "dropout");
  EXPECT_ERROR(read(R"({"init_std": -1})"), WEFT_INVALID_ARGUMENT, "init_std");
}

TEST(OptConfig, HasDefaultsOfHuggingFace) {
  const OptConfig config = read("{}");
  EXPECT_EQ(config.vocab_size, 50272);
  EXPECT_EQ(config.hidden_size, 768);
  EXPECT_EQ(config.word_embed_proj_dim, 768);
  EXPECT_EQ(config.ffn_dim, 3072);
  EXPECT_EQ(config.max_position_embeddings, 2048);
  EXPECT_EQ(config.activation_function, "relu");
  EXPECT_EQ(config.dropout, 0.1);
  EXPECT_EQ(config.attention_dropout, 0);
  EXPECT_EQ(config.init_std, 0.02);
  EXPECT_EQ(config.pad_token_id, 1);
  EXPECT_TRUE(config.has_final_norm() && config.enable_bias && config.layer_norm_elementwise_affine &&
              config.tie_word_embeddings);
  EXPECT_FALSE(config.projects());
}

// The config.json of opt-350m as transformers 4.20 wrote it, and as 5 does.
TEST(OptConfig, ReadsFilesOfTransformers4And5) {
  const OptConfig old = read(R"({"_remove_final_layer_norm": false, "activation_dropout": 0.0,
      "activation_function": "relu", "architectures": ["OPTForCausalLM"], "attention_dropout": 0.0,
      "bos_token_id": 2, "do_layer_norm_before": false, "dropout": 0.1, "eos_token_id": 2, "ffn_dim": 4096,
      "hidden_size": 1024, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
      "model_type": "opt", "num_attention_heads": 16, "num_hidden_layers": 24, "pad_token_id": 1,
      "prefix": "</s>", "torch_dtype": "float16", "transformers_version": "4.20.0.dev0", "use_cache": true,
      "vocab_size": 50272, "word_embed_proj_dim": 512})");
  const OptConfig now = read(R"({"do_layer_norm_before": false, "dtype": "float16", "enable_bias": true,
      "eos_token_id": [2], "ffn_dim": 4096, "hidden_size": 1024, "layer_norm_elementwise_affine": true,
      "layerdrop": 0, "model_type": "opt", "num_attention_heads": 16, "num_hidden_layers": 24,
      "tie_word_embeddings": true, "transformers_version": "5.23.0", "word_embed_proj_dim": 512})");
  for (const OptConfig& config : {old, now}) {
    EXPECT_EQ(config.word_embed_proj_dim, 512);
    EXPECT_EQ(config.hidden_size, 1024);
    EXPECT_EQ(config.num_hidden_layers, 24);
    EXPECT_TRUE(config.projects());
    EXPECT_FALSE(config.do_layer_norm_before || config.has_final_norm());
  }
}

TEST(OptConfig, TellsNoPaddingFromTheDefault) {
  EXPECT_EQ(read(R"({"pad_token_id": null})").padding_row(), std::nullopt);
  EXPECT_EQ(read("{}").padding_row(), 1);
  EXPECT_EQ(read(R"({"vocab_size": 9, "pad_token_id": -1})").padding_row(), 8);
}

TEST(OptConfig, TakesTheRangeOfOtherFamiliesBeforeItsOwn) {
  EXPECT_EQ(read(R"({"init_std": 0.3})").init_std, 0.3);
  EXPECT_EQ(read(R"({"init_std": 0.3, "initializer_range": 0.1})").init_std, 0.1);
  EXPECT_EQ(read(R"({"init_std": 0.3, "initializer_range": 0})").init_std, 0.02);
}

TEST(OptConfig, HasNoFinalNormIfToldOrAfterBlocksThatEndInOne) {
  EXPECT_FALSE(read(R"({"_remove_final_layer_norm": true})").has_final_norm());
  EXPECT_FALSE(read(R"({"do_layer_norm_before": false})").has_final_norm());
}

}  // namespace

}  // namespace weft::test
