#include <gtest/gtest.h>

#include "chatglm_model.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using chatglm::ChatGlmConfig;

ChatGlmConfig read(const std::string& json) {
  return ChatGlmConfig::read(Config::parse(json, "config.json"));
}

TEST(ChatGlmConfig, RefusesWhatWeftDoesNotHave) {
  EXPECT_ERROR(read(R"({"pre_seq_len": 8})"), WEFT_UNIMPLEMENTED, "config.json", "\"pre_seq_len\" is 8",
               "set it to null", "ChatGLM2");
  EXPECT_ERROR(read(R"({"prefix_projection": true})"), WEFT_UNIMPLEMENTED, "prefix_projection", "ChatGLM2");
  EXPECT_ERROR(read(R"({"quantization_bit": 4})"), WEFT_UNIMPLEMENTED, "\"quantization_bit\" is 4",
               "set it to 0");
  EXPECT_ERROR(read(R"({"rope_ratio": 16})"), WEFT_UNIMPLEMENTED, "\"rope_ratio\" is 16", "set it to 1");
  EXPECT_ERROR(read(R"({"output_hidden_states": true})"), WEFT_UNIMPLEMENTED, "output_hidden_states");
  EXPECT_ERROR(read(R"({"model_type": "glm"})"), WEFT_INVALID_ARGUMENT, "model_type", "glm", "ChatGLM2");
}

TEST(ChatGlmConfig, RefusesContradictionsNamingTheKeys) {
  EXPECT_ERROR(
      read(R"({"num_attention_heads": 8, "multi_query_attention": true, "multi_query_group_num": 3})"),
      WEFT_INVALID_ARGUMENT, "num_attention_heads", "8", "multi_query_group_num", "3");
  EXPECT_ERROR(read(R"({"padded_vocab_size": 65024, "vocab_size": 64794})"), WEFT_INVALID_ARGUMENT,
               "\"vocab_size\" is 64794", "padded_vocab_size", "65024");
  EXPECT_ERROR(read(R"({"kv_channels": 1})"), WEFT_INVALID_ARGUMENT, "kv_channels", "at least 2");
  EXPECT_ERROR(read(R"({"num_layers": 0})"), WEFT_INVALID_ARGUMENT, "num_layers", "at least 1");
  EXPECT_ERROR(read(R"({"hidden_dropout": 1})"), WEFT_INVALID_ARGUMENT, "hidden_dropout");
}

TEST(ChatGlmConfig, HasThePublishedDefaults) {
  const ChatGlmConfig config = read("{}");
  EXPECT_EQ(config.num_layers, 28);
  EXPECT_EQ(config.padded_vocab_size, 65024);
  EXPECT_EQ(config.ffn_hidden_size, 13696);
  EXPECT_EQ(config.kv_channels, 128);
  EXPECT_EQ(config.seq_length, 2048);
  EXPECT_EQ(config.layernorm_epsilon, 1e-5);
  EXPECT_TRUE(config.rmsnorm && config.post_layer_norm);
  EXPECT_FALSE(config.multi_query_attention || config.add_qkv_bias || config.add_bias_linear ||
               config.apply_residual_connection_post_layernorm || config.fp32_residual_connection);
  // The number of groups counts with multi_query_attention only.
  EXPECT_EQ(read(R"({"num_attention_heads": 6, "multi_query_group_num": 2})").key_heads, 6);
  EXPECT_EQ(read(R"({"multi_query_attention": true})").key_heads, 1);
}

// The config.json of chatglm2-6b.
TEST(ChatGlmConfig, ReadsThePublishedFile) {
  const ChatGlmConfig config = read(
      R"({"_name_or_path": "THUDM/chatglm2-6b", "model_type": "chatglm", "architectures": ["ChatGLMModel"],
      "auto_map": {"AutoConfig": "configuration_chatglm.ChatGLMConfig"}, "add_bias_linear": false,
      "add_qkv_bias": true, "apply_query_key_layer_scaling": true,
      "apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0,
      "attention_softmax_in_fp32": true, "bias_dropout_fusion": true, "ffn_hidden_size": 13696,
      "fp32_residual_connection": false, "hidden_dropout": 0.0, "hidden_size": 4096, "kv_channels": 128,
      "layernorm_epsilon": 1e-05, "multi_query_attention": true, "multi_query_group_num": 2,
      "num_attention_heads": 32, "num_layers": 28, "original_rope": true, "padded_vocab_size": 65024,
      "post_layer_norm": true, "rmsnorm": true, "seq_length": 32768, "use_cache": true,
      "torch_dtype": "float16", "tie_word_embeddings": false, "eos_token_id": 2, "pad_token_id": 0,
      "pre_seq_len": null, "prefix_projection": false, "quantization_bit": 0})");
  EXPECT_EQ(config.key_heads, 2);
  EXPECT_EQ(config.seq_length, 32768);
  EXPECT_TRUE(config.add_qkv_bias);
}

TEST(ChatGlmConfig, KeepsResidualsInTheTypeOfTheModelOnly) {
  const Config config = Config::parse(
      R"({"num_layers": 1, "padded_vocab_size": 7, "fp32_residual_connection": true})", "config.json");
  const auto make = [&](at::ScalarType dtype) { chatglm::make_model(config, "ChatGLMModel", dtype); };
  EXPECT_ERROR(make(at::kBFloat16), WEFT_UNIMPLEMENTED, "config.json", "fp32_residual_connection",
               "set it to false");
  EXPECT_NO_THROW(make(at::kFloat));
}

}  // namespace

}  // namespace weft::test
