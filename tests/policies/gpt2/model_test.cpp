// Names, ties, units and initial values of the models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"

namespace weft::test {

namespace {

const Config kSmall = Config::parse(
    R"({"vocab_size": 11, "n_positions": 6, "n_embd": 8, "n_head": 2, "n_layer": 3, "initializer_range": 0.05})",
    "config.json");

TEST(Gpt2Model, TiesTheHeadToTheEmbeddingUnlessTold) {
  const auto tied = make_model(kSmall, "GPT2LMHeadModel");
  const auto parameters = tied->named_parameters();
  EXPECT_EQ(parameters["lm_head.weight"].unsafeGetTensorImpl(),
            parameters["transformer.wte.weight"].unsafeGetTensorImpl());
  ASSERT_EQ(tied->ties().size(), 1);
  EXPECT_EQ(tied->ties()[0].name, "lm_head.weight");
  EXPECT_EQ(tied->ties()[0].canonical, "transformer.wte.weight");
  const auto untied = make_model(kSmall.with_json("tie_word_embeddings", "false"), "GPT2LMHeadModel");
  EXPECT_NE(untied->named_parameters()["lm_head.weight"].unsafeGetTensorImpl(),
            untied->named_parameters()["transformer.wte.weight"].unsafeGetTensorImpl());
  EXPECT_TRUE(untied->ties().empty());
}

TEST(Gpt2Model, ABlockIsAUnit) {
  EXPECT_EQ(unit_names(*make_model(kSmall, "GPT2LMHeadModel")),
            (std::vector<std::string>{"prologue", "h.0", "h.1", "h.2", "epilogue"}));
}

TEST(Gpt2Model, BeginsAsHuggingFaceDoes) {
  const auto model = make_model(kSmall, "GPT2DoubleHeadsModel");
  const auto deviation = [&](const char* name) { return model->initial(name).second; };
  EXPECT_EQ(deviation("transformer.wte.weight"), 0.05);
  EXPECT_EQ(deviation("transformer.h.0.attn.c_attn.weight"), 0.05);
  EXPECT_DOUBLE_EQ(deviation("transformer.h.2.mlp.c_proj.weight"), 0.05 / std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(deviation("transformer.h.1.attn.c_proj.weight"), 0.05 / std::sqrt(6.0));
  EXPECT_EQ(deviation("multiple_choice_head.summary.weight"), 0.05);
  EXPECT_EQ(model->initial("transformer.h.0.attn.c_attn.bias").first, 0);
  EXPECT_EQ(model->initial("transformer.ln_f.weight").first, 1);
  EXPECT_EQ(model->initial("transformer.h.0.ln_1.weight").kind, nn::Initial::Kind::kConstant);
}

TEST(Gpt2Model, IgnoresMasksOfOldCheckpointsOnly) {
  const auto model = make_model(kSmall, "GPT2LMHeadModel");
  EXPECT_TRUE(model->ignored_on_load("transformer.h.0.attn.bias"));
  EXPECT_TRUE(model->ignored_on_load("h.11.attn.masked_bias"));
  EXPECT_FALSE(model->ignored_on_load("transformer.h.0.attn.c_attn.bias"));
  EXPECT_FALSE(model->ignored_on_load("score.weight"));
}

TEST(Gpt2Model, DropsOutInTrainingOnly) {
  const auto model = make_model(kSmall, "GPT2Model");
  bind_random(*model, 3);
  const Batch batch = {{"input_ids", at::arange(6).view({1, 6})}};
  expect_dropout_in_training_only(*model, batch);
}

}  // namespace

}  // namespace weft::test
