// The configuration of Mistral and its sliding window.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "mistral_model.hpp"
#include "policies/oracle.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using Windows = std::vector<int64_t>;

nn::RotaryDecoderConfig read(const std::string& json) {
  return mistral::read_config(Config::parse(json, "config.json"));
}

TEST(MistralConfig, RefusesWhatIsOfOtherModels) {
  EXPECT_ERROR(read(R"({"model_type": "llama"})"), WEFT_INVALID_ARGUMENT, "model_type", "Mistral");
  EXPECT_ERROR(read(R"({"sliding_window": 0})"), WEFT_INVALID_ARGUMENT, "sliding_window", "at least 1");
  EXPECT_ERROR(read(R"({"num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"]})"),
               WEFT_INVALID_ARGUMENT, "layer_types", "Ministral");
  EXPECT_ERROR(
      read(R"({"num_hidden_layers": 1, "layer_types": ["sliding_attention"], "sliding_window": null})"),
      WEFT_INVALID_ARGUMENT, "layer_types", "sliding_window");
  EXPECT_ERROR(read(R"({"rope_scaling": {"rope_type": "yarn", "factor": 2}})"), WEFT_UNIMPLEMENTED, "yarn");
}

TEST(MistralConfig, HasDefaultsOfHuggingFace) {
  const nn::RotaryDecoderConfig config = read("{}");
  EXPECT_EQ(config.vocab_size, 32000);
  EXPECT_EQ(config.intermediate_size, 14336);
  EXPECT_EQ(config.num_key_value_heads, 8);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.max_position_embeddings, 131072);
  EXPECT_EQ(config.windows, Windows(32, 4096));
  EXPECT_EQ(config.classifier_dropout, 0.1);
  EXPECT_FALSE(config.input_bias || config.output_bias || config.mlp_bias || config.norms_heads);
}

TEST(MistralConfig, TellsNullFromAnAbsentKey) {
  EXPECT_EQ(read(R"({"num_hidden_layers": 2, "sliding_window": null})").windows, Windows(2, 0));
  EXPECT_EQ(read(R"({"num_key_value_heads": null})").num_key_value_heads, 32);
}

// The config.json of Mistral 7B v0.1 as transformers 4.34 wrote it, and as 5 does.
TEST(MistralConfig, ReadsFilesOfTransformers4And5) {
  const nn::RotaryDecoderConfig old = read(R"({"architectures": ["MistralForCausalLM"], "bos_token_id": 1,
      "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
      "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
      "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
      "rope_theta": 1000000.0, "sliding_window": 4096, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
      "transformers_version": "4.34.0.dev0", "use_cache": true, "vocab_size": 32000})");
  const nn::RotaryDecoderConfig now = read(R"({"max_position_embeddings": 32768, "rms_norm_eps": 1e-05,
      "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "sliding_window": 4096,
      "layer_types": null, "head_dim": 128})");
  for (const nn::RotaryDecoderConfig& config : {old, now}) {
    EXPECT_EQ(config.rotary.theta, 1e6);
    EXPECT_EQ(config.head_dim, 128);
    EXPECT_EQ(config.rms_norm_eps, 1e-5);
    EXPECT_EQ(config.max_position_embeddings, 32768);
    EXPECT_EQ(config.windows, Windows(32, 4096));
  }
}

const Config kSmall = Config::parse(
    R"({"vocab_size": 11, "max_position_embeddings": 8, "hidden_size": 8, "intermediate_size": 12,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1, "sliding_window": 3,
        "num_labels": 3, "initializer_range": 0.05, "pad_token_id": 3})",
    "config.json");

// Of one layer, position 6 sees 4, 5 and 6.
TEST(MistralModel, SeesNothingBeforeItsWindow) {
  const auto model = make_model(kSmall, "MistralModel");
  bind_random(*model, 1);
  const auto hidden = [&](int64_t changed) {
    at::Tensor ids = at::arange(8).view({1, 8}).clone();
    if (changed >= 0) ids[0][changed] = 9;
    return run(*model, {{"input_ids", ids}}).at("last_hidden_state").select(1, 6);
  };
  const at::Tensor plain = hidden(-1);
  for (const int64_t changed : {0, 1, 2, 3, 7}) EXPECT_TRUE(hidden(changed).equal(plain)) << changed;
  for (const int64_t changed : {4, 5, 6}) EXPECT_FALSE(hidden(changed).equal(plain)) << changed;
}

TEST(MistralModel, DropsOutInTheClassForTokensUnlessTold) {
  const auto dropped = [](const Config& config) {
    const auto model = make_model(config, "MistralForTokenClassification");
    bind_random(*model, 3);
    const Batch batch = {{"input_ids", at::arange(8).view({1, 8})}};
    return !run(*model, batch).at("logits").equal(run(*model, batch).at("logits"));
  };
  EXPECT_TRUE(dropped(kSmall.with_json("hidden_dropout", "0.5")));
  EXPECT_TRUE(dropped(kSmall.with_json("classifier_dropout", "0.5").with_json("hidden_dropout", "0.0")));
  EXPECT_FALSE(dropped(kSmall.with_json("classifier_dropout", "0.0").with_json("hidden_dropout", "0.5")));
}

TEST(MistralModel, BeginsAsHuggingFaceDoes) {
  const auto model = make_model(kSmall, "MistralForTokenClassification");
  EXPECT_EQ(model->initial("score.weight").second, 0.05);
  EXPECT_EQ(model->initial("score.bias").first, 0);
  EXPECT_EQ(model->initial("model.layers.0.input_layernorm.weight").first, 1);
  EXPECT_EQ(model->initial("model.embed_tokens.weight").zeros_begin, 3 * 8);
}

}  // namespace

}  // namespace weft::test
