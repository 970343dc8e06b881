#include <gtest/gtest.h>

#include "llama_model.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using LlamaConfig = nn::RotaryDecoderConfig;

LlamaConfig read(const std::string& json) {
  return llama::read_config(Config::parse(json, "config.json"));
}

TEST(LlamaConfig, RefusesWhatWeftDoesNotHave) {
  EXPECT_ERROR(read(R"({"output_attentions": true})"), WEFT_UNIMPLEMENTED, "output_attentions", "Llama");
  EXPECT_ERROR(read(R"({"quantization_config": {"bits": 4}})"), WEFT_UNIMPLEMENTED, "quantization_config");
  EXPECT_ERROR(read(R"({"model_type": "mistral"})"), WEFT_INVALID_ARGUMENT, "model_type", "mistral");
  EXPECT_ERROR(read(R"({"is_causal": false})"), WEFT_UNIMPLEMENTED, "is_causal", "Llama");
  EXPECT_ERROR(read(R"({"rope_parameters": {"sliding_attention": {"rope_type": "default"}}})"),
               WEFT_UNIMPLEMENTED, "rope_parameters", "sliding_attention");
  EXPECT_ERROR(read(R"({"rope_scaling": {"rope_type": "yarn", "factor": 2}})"), WEFT_UNIMPLEMENTED, "yarn",
               "llama3");
}

TEST(LlamaConfig, RefusesContradictionsNamingTheKeys) {
  EXPECT_ERROR(read(R"({"hidden_size": 10, "num_attention_heads": 3})"), WEFT_INVALID_ARGUMENT, "hidden_size",
               "10", "num_attention_heads", "3");
  EXPECT_ERROR(read(R"({"hidden_size": 10, "num_attention_heads": 3, "head_dim": 4})"), WEFT_INVALID_ARGUMENT,
               "hidden_size", "10", "num_attention_heads", "3");
  EXPECT_ERROR(read(R"({"num_attention_heads": 8, "num_key_value_heads": 3})"), WEFT_INVALID_ARGUMENT,
               "num_attention_heads", "8", "num_key_value_heads", "3");
  EXPECT_ERROR(read(R"({"hidden_size": 15, "num_attention_heads": 3})"), WEFT_INVALID_ARGUMENT, "head_dim",
               "5", "even", "hidden_size");
  EXPECT_ERROR(read(R"({"hidden_act": "sillu"})"), WEFT_INVALID_ARGUMENT, "hidden_act", "silu");
  EXPECT_ERROR(read(R"({"vocab_size": 7, "pad_token_id": 7})"), WEFT_INVALID_ARGUMENT, "pad_token_id", "7",
               "-7 to 6");
  EXPECT_ERROR(read(R"({"rms_norm_eps": 0})"), WEFT_INVALID_ARGUMENT, "rms_norm_eps");
  EXPECT_ERROR(read(R"({"num_hidden_layers": 0})"), WEFT_INVALID_ARGUMENT, "num_hidden_layers", "at least 1");
}

TEST(LlamaConfig, HasDefaultsOfHuggingFace) {
  const LlamaConfig config = read("{}");
  EXPECT_EQ(config.vocab_size, 32000);
  EXPECT_EQ(config.hidden_size, 4096);
  EXPECT_EQ(config.intermediate_size, 11008);
  EXPECT_EQ(config.num_key_value_heads, 32);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.max_position_embeddings, 2048);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rotary.theta, 10000);
  EXPECT_FALSE(config.tie_word_embeddings || config.input_bias || config.output_bias || config.mlp_bias);
  EXPECT_FALSE(config.pad_token_id || config.padding_row());
}

// The config.json of Llama 3.2 1B as transformers 4.45 wrote it, and as 5 does.
TEST(LlamaConfig, ReadsFilesOfTransformers4And5) {
  const LlamaConfig old = read(R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64,
      "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
      "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
      "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0,
      "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
      "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
      "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256})");
  const LlamaConfig now = read(R"({"hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8,
      "rope_parameters": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
      "original_max_position_embeddings": 8192, "rope_theta": 500000.0, "rope_type": "llama3"}})");
  for (const LlamaConfig& config : {old, now}) {
    EXPECT_EQ(config.head_dim, 64);
    EXPECT_EQ(config.num_key_value_heads, 8);
    EXPECT_EQ(config.rotary.scaling, nn::RotaryConfig::Scaling::kByWavelength);
    EXPECT_EQ(config.rotary.theta, 500000);
    EXPECT_EQ(config.rotary.factor, 32);
    EXPECT_EQ(config.rotary.original_positions, 8192);
  }
  EXPECT_TRUE(old.tie_word_embeddings);
}

TEST(LlamaConfig, CountsNegativePaddingFromTheEnd) {
  EXPECT_EQ(read(R"({"vocab_size": 9, "pad_token_id": -1})").padding_row(), 8);
  EXPECT_EQ(read(R"({"vocab_size": 9, "pad_token_id": 3})").padding_row(), 3);
}

}  // namespace

}  // namespace weft::test
