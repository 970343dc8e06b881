// Names, ties, units, initial values and batches of the models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "layers/initialise.hpp"
#include "policies/oracle.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

const Config kSmall = Config::parse(
    R"({"vocab_size": 11, "max_position_embeddings": 6, "hidden_size": 8, "intermediate_size": 12,
        "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "initializer_range": 0.05,
        "pad_token_id": 3, "num_labels": 3})",
    "config.json");

Batch batch(at::Tensor ids) {
  return {{"input_ids", std::move(ids)}};
}

at::Tensor ids(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape)).remainder(10).add(1).view(shape);
}

TEST(LlamaModel, RefusesFieldsAndSequencesThatItDoesNotTake) {
  const auto model = make_model(kSmall, "LlamaForCausalLM");
  Batch types = batch(ids({2, 3}));
  types.set("token_type_ids", ids({2, 3}));
  EXPECT_ERROR(model->input(types), WEFT_INVALID_ARGUMENT, "LlamaForCausalLM", "token_type_ids");
  EXPECT_ERROR(model->input(batch(ids({2, 7}))), WEFT_INVALID_ARGUMENT, "7 positions",
               "max_position_embeddings", "6");
  EXPECT_ERROR(model->input(batch(at::full({1, 2}, 11, at::kLong))), WEFT_INVALID_ARGUMENT, "input_ids",
               "11");
}

TEST(LlamaModel, TiesTheHeadToTheEmbeddingIfTold) {
  const auto plain = make_model(kSmall, "LlamaForCausalLM");
  EXPECT_TRUE(plain->ties().empty());
  const auto tied = make_model(kSmall.with_json("tie_word_embeddings", "true"), "LlamaForCausalLM");
  const auto parameters = tied->named_parameters();
  EXPECT_EQ(parameters["lm_head.weight"].unsafeGetTensorImpl(),
            parameters["model.embed_tokens.weight"].unsafeGetTensorImpl());
  ASSERT_EQ(tied->ties().size(), 1);
  EXPECT_EQ(tied->ties()[0].name, "lm_head.weight");
  EXPECT_EQ(tied->ties()[0].canonical, "model.embed_tokens.weight");
}

TEST(LlamaModel, ClassifiesTokensWithoutABiasIfTold) {
  const auto has_bias = [](const Config& config) {
    return make_model(config, "LlamaForTokenClassification")->named_parameters().contains("score.bias");
  };
  EXPECT_TRUE(has_bias(kSmall));
  EXPECT_FALSE(has_bias(kSmall.with_json("token_classification_bias", "false")));
}

TEST(LlamaModel, ABlockIsAUnit) {
  EXPECT_EQ(unit_names(*make_model(kSmall, "LlamaForCausalLM")),
            (std::vector<std::string>{"prologue", "layers.0", "layers.1", "epilogue"}));
}

TEST(LlamaModel, BeginsAsHuggingFaceDoes) {
  const auto model = make_model(kSmall.with_json("attention_bias", "true"), "LlamaForSequenceClassification");
  for (const char* name : {"model.layers.0.self_attn.o_proj.weight", "model.layers.1.mlp.down_proj.weight",
                           "score.weight", "model.embed_tokens.weight"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kNormal) << name;
    EXPECT_EQ(model->initial(name).second, 0.05) << name;
  }
  EXPECT_EQ(model->initial("model.layers.0.self_attn.q_proj.bias").first, 0);
  for (const char* name : {"model.norm.weight", "model.layers.1.input_layernorm.weight",
                           "model.layers.0.post_attention_layernorm.weight"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kConstant) << name;
    EXPECT_EQ(model->initial(name).first, 1) << name;
  }
}

// The row of the padding token, in the whole parameter and in shards.
TEST(LlamaModel, BeginsWithARowOfZerosForPadding) {
  const nn::Initial initial = make_model(kSmall, "LlamaModel")->initial("embed_tokens.weight");
  const at::Tensor whole = at::empty({11, 8}), part = at::empty({20});
  nn::initialise(initial, 7, "embed_tokens.weight", 0, whole);
  EXPECT_TRUE(whole[3].eq(0).all().item<bool>());
  EXPECT_EQ(whole.ne(0).sum().item<int64_t>(), 80);
  nn::initialise(initial, 7, "embed_tokens.weight", 20, part);
  EXPECT_TRUE(part.equal(whole.view(-1).slice(0, 20, 40)));
}

TEST(LlamaModel, IgnoresFrequenciesOfOldCheckpointsOnly) {
  const auto model = make_model(kSmall, "LlamaForCausalLM");
  EXPECT_TRUE(model->ignored_on_load("model.layers.0.self_attn.rotary_emb.inv_freq"));
  EXPECT_TRUE(model->ignored_on_load("rotary_emb.inv_freq"));
  EXPECT_FALSE(model->ignored_on_load("model.layers.0.self_attn.q_proj.bias"));
}

TEST(LlamaModel, DropsOutAttentionInTrainingOnly) {
  const auto model = make_model(kSmall.with_json("attention_dropout", "0.5"), "LlamaModel");
  bind_random(*model, 3);
  expect_dropout_in_training_only(*model, batch(ids({1, 6})));
}

TEST(LlamaModel, MaskedTokensDoNotMatter) {
  const auto model = make_model(kSmall, "LlamaForCausalLM");
  bind_random(*model, 1);
  const at::Tensor mask = at::tensor({0, 1, 1, 1, 1, 0}, at::kLong).view({1, 6});
  const auto logits = [&](const at::Tensor& input) {
    Batch masked = batch(input);
    masked.set("attention_mask", mask);
    return run(*model, masked).at("logits").slice(1, 1, 5);
  };
  at::Tensor other = ids({1, 6}).clone();
  other[0][0] = 7;
  other[0][5] = 9;
  EXPECT_TRUE(logits(ids({1, 6})).equal(logits(other)));
}

// Rotary positions are relative: the same distances give the same outputs.
TEST(LlamaModel, TellsDistancesNotPlaces) {
  const auto model = make_model(kSmall, "LlamaModel");
  bind_random(*model, 1);
  const auto hidden = [&](const at::Tensor& positions) {
    Batch placed = batch(ids({1, 4}));
    placed.set("position_ids", positions.unsqueeze(0));
    return run(*model, placed).at("last_hidden_state");
  };
  EXPECT_TRUE(is_near(hidden(at::arange(4) + 2), hidden(at::arange(4)), kHuggingFaceOutput));
  EXPECT_FALSE(is_near(hidden(at::tensor({0, 1, 2, 5})), hidden(at::arange(4)), 1e-3));
}

}  // namespace

}  // namespace weft::test
