// The configuration of Qwen2: which layers have a window, and its biases.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "qwen2_model.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using Windows = std::vector<int64_t>;

nn::RotaryDecoderConfig read(const std::string& json) {
  return qwen2::read_config(Config::parse(json, "config.json"));
}

TEST(Qwen2Config, RefusesLayerTypesThatItCannotHave) {
  EXPECT_ERROR(read(R"({"num_hidden_layers": 2, "layer_types": ["full_attention"]})"), WEFT_INVALID_ARGUMENT,
               "layer_types", "1", "num_hidden_layers", "2");
  EXPECT_ERROR(read(R"({"num_hidden_layers": 1, "layer_types": ["chunked_attention"]})"), WEFT_UNIMPLEMENTED,
               "layer_types", "chunked_attention", "sliding_attention");
  EXPECT_ERROR(read(R"({"num_hidden_layers": 1, "layer_types": ["sliding_attention"], "sliding_window": 4})"),
               WEFT_INVALID_ARGUMENT, "sliding_attention", "use_sliding_window");
  EXPECT_ERROR(read(R"({"model_type": "qwen3"})"), WEFT_INVALID_ARGUMENT, "model_type", "Qwen2");
}

TEST(Qwen2Config, HasDefaultsOfHuggingFace) {
  const nn::RotaryDecoderConfig config = read("{}");
  EXPECT_EQ(config.vocab_size, 151936);
  EXPECT_EQ(config.intermediate_size, 22016);
  EXPECT_EQ(config.num_key_value_heads, 32);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.max_position_embeddings, 32768);
  EXPECT_EQ(config.windows, Windows(32, 0));
  EXPECT_TRUE(config.input_bias);
  EXPECT_FALSE(config.output_bias || config.mlp_bias || config.norms_heads || config.tie_word_embeddings);
}

TEST(Qwen2Config, TellsWhichLayersHaveAWindow) {
  const auto windows = [](const std::string& more) {
    return read(R"({"num_hidden_layers": 3, )" + more + "}").windows;
  };
  EXPECT_EQ(windows(R"("sliding_window": 7, "max_window_layers": 1)"), (Windows{0, 0, 0}));
  const std::string on = R"("use_sliding_window": true, )";
  EXPECT_EQ(windows(on + R"("sliding_window": 7, "max_window_layers": 1)"), (Windows{0, 7, 7}));
  EXPECT_EQ(windows(on + R"("sliding_window": null, "max_window_layers": 1)"), (Windows{0, 0, 0}));
  EXPECT_EQ(windows(on + R"("max_window_layers": 0)"), (Windows{4096, 4096, 4096}));
  EXPECT_EQ(windows(on + R"("max_window_layers": 3)"), (Windows{0, 0, 0}));
  EXPECT_EQ(windows(on + R"("sliding_window": 7)"), (Windows{0, 0, 0}));  // the first is layer 28
  EXPECT_EQ(windows(on + R"("sliding_window": 7, "max_window_layers": 0,
                            "layer_types": ["sliding_attention", "full_attention", "attention"])"),
            (Windows{7, 0, 0}));
}

// The config.json of Qwen2 7B as transformers 4.40 wrote it, and as 5 does.
TEST(Qwen2Config, ReadsFilesOfTransformers4And5) {
  const nn::RotaryDecoderConfig old =
      read(R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
      "bos_token_id": 151643, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 3584,
      "initializer_range": 0.02, "intermediate_size": 18944, "max_position_embeddings": 131072,
      "max_window_layers": 28, "model_type": "qwen2", "num_attention_heads": 28, "num_hidden_layers": 28,
      "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.40.1",
      "use_cache": true, "use_sliding_window": false, "vocab_size": 152064})");
  const nn::RotaryDecoderConfig now = read(R"({"hidden_size": 3584, "num_attention_heads": 28,
      "num_hidden_layers": 2, "num_key_value_heads": 4, "layer_types": ["full_attention", "full_attention"],
      "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "sliding_window": null})");
  for (const nn::RotaryDecoderConfig& config : {old, now}) {
    EXPECT_EQ(config.rotary.theta, 1e6);
    EXPECT_EQ(config.head_dim, 128);
    EXPECT_EQ(config.num_key_value_heads, 4);
    EXPECT_EQ(config.windows, Windows(config.windows.size(), 0));
  }
}

TEST(Qwen2Model, HasBiasesOfQueriesKeysAndValuesOnly) {
  const Config config = Config::parse(
      R"({"vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 4,
          "num_key_value_heads": 2, "num_hidden_layers": 1, "initializer_range": 0})",
      "config.json");
  const auto model = make_model(config, "Qwen2ForCausalLM");
  std::vector<std::string> biases;
  for (const auto& item : model->named_parameters())
    if (item.key().ends_with("bias")) biases.push_back(item.key());
  const std::string attention = "model.layers.0.self_attn.";
  EXPECT_EQ(biases, (std::vector<std::string>{attention + "q_proj.bias", attention + "k_proj.bias",
                                              attention + "v_proj.bias"}));
  for (const std::string& bias : biases) EXPECT_EQ(model->initial(bias).first, 0);
  EXPECT_EQ(model->initial(attention + "q_proj.weight").second, 0.02);  // in place of 0
}

}  // namespace

}  // namespace weft::test
