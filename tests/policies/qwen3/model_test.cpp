// The configuration of Qwen3, and its norms of queries and keys.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "qwen3_model.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

nn::RotaryDecoderConfig read(const std::string& json) {
  return qwen3::read_config(Config::parse(json, "config.json"));
}

TEST(Qwen3Config, RefusesWhatItCannotHave) {
  EXPECT_ERROR(read(R"({"head_dim": 7})"), WEFT_INVALID_ARGUMENT, "head_dim", "7", "even");
  EXPECT_ERROR(read(R"({"model_type": "qwen3_moe"})"), WEFT_INVALID_ARGUMENT, "qwen3_moe", "Qwen3");
  EXPECT_ERROR(read(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4}})"), WEFT_UNIMPLEMENTED, "yarn");
}

TEST(Qwen3Config, HasDefaultsOfHuggingFace) {
  const nn::RotaryDecoderConfig config = read(R"({"hidden_size": 1024})");
  EXPECT_EQ(config.head_dim, 128);  // not hidden_size / num_attention_heads
  EXPECT_EQ(config.num_key_value_heads, 32);
  EXPECT_EQ(config.windows, std::vector<int64_t>(32, 0));
  EXPECT_TRUE(config.norms_heads);
  EXPECT_FALSE(config.input_bias || config.output_bias || config.mlp_bias);
  const nn::RotaryDecoderConfig biased = read(R"({"attention_bias": true})");
  EXPECT_TRUE(biased.input_bias && biased.output_bias);
}

// The config.json of Qwen3 0.6B as transformers 4.51 wrote it.
TEST(Qwen3Config, ReadsFilesOfTransformers4) {
  const nn::RotaryDecoderConfig config =
      read(R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128,
      "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
      "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
      "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
      "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true,
      "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true,
      "use_sliding_window": false, "vocab_size": 151936})");
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.rotary.theta, 1e6);
  EXPECT_EQ(config.windows, std::vector<int64_t>(28, 0));
  EXPECT_TRUE(config.tie_word_embeddings);
}

// The norms take the scale of the queries and keys away, those of each head alone.
TEST(Qwen3Model, NormalizesTheHeadsOfQueriesAndKeys) {
  const Config config = Config::parse(
      R"({"vocab_size": 11, "max_position_embeddings": 8, "hidden_size": 8, "intermediate_size": 12,
          "head_dim": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1})",
      "config.json");
  const auto model = make_model(config, "Qwen3Model", at::kDouble);
  bind_random(*model, 1);
  const auto hidden = [&] {
    return run(*model, {{"input_ids", at::arange(8).view({1, 8})}}).at("last_hidden_state").detach();
  };
  const at::Tensor before = hidden();
  const at::NoGradGuard no_grad;
  const auto scale = [&](const char* name, int64_t row, double factor) {
    model->named_parameters()[std::string("layers.0.self_attn.") + name].narrow(0, row, 1).mul_(factor);
  };
  for (int64_t row = 4; row < 8; ++row) scale("q_proj.weight", row, 1000);
  for (int64_t row = 0; row < 4; ++row) scale("k_proj.weight", row, 1000);
  EXPECT_TRUE(is_near(hidden(), before, 1e-3));
  scale("q_norm.weight", 1, 1000);
  EXPECT_FALSE(is_near(hidden(), before, 1e-2));
  EXPECT_EQ(make_model(config, "Qwen3Model")->initial("layers.0.self_attn.k_norm.weight").first, 1);
}

}  // namespace

}  // namespace weft::test
