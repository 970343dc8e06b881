// Names, ties, units, initial values and positions of the models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

const Config kSmall = Config::parse(
    R"({"vocab_size": 11, "max_position_embeddings": 6, "hidden_size": 8, "ffn_dim": 12,
        "word_embed_proj_dim": 4, "num_attention_heads": 2, "num_hidden_layers": 2, "init_std": 0.05,
        "pad_token_id": 3, "num_labels": 3})",
    "config.json");

Batch batch(at::Tensor ids) {
  return {{"input_ids", std::move(ids)}};
}

at::Tensor ids(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape)).remainder(10).add(1).view(shape);
}

TEST(OptModel, RefusesFieldsAndSequencesThatItDoesNotTake) {
  const auto model = make_model(kSmall, "OPTForCausalLM");
  Batch types = batch(ids({2, 3}));
  types.set("token_type_ids", ids({2, 3}));
  EXPECT_ERROR(model->input(types), WEFT_INVALID_ARGUMENT, "OPTForCausalLM", "token_type_ids");
  EXPECT_ERROR(model->input(batch(ids({2, 7}))), WEFT_INVALID_ARGUMENT, "7 positions",
               "max_position_embeddings", "6");
  Batch placed = batch(ids({1, 3}));
  placed.set("position_ids", at::full({1, 3}, 6, at::kLong));
  EXPECT_ERROR(model->input(placed), WEFT_INVALID_ARGUMENT, "position_ids", "6", "0 to 5");
}

TEST(OptModel, TiesTheHeadToTheEmbeddingUnlessTold) {
  const auto tied = make_model(kSmall, "OPTForCausalLM");
  const auto parameters = tied->named_parameters();
  EXPECT_EQ(parameters["lm_head.weight"].unsafeGetTensorImpl(),
            parameters["model.decoder.embed_tokens.weight"].unsafeGetTensorImpl());
  ASSERT_EQ(tied->ties().size(), 1);
  EXPECT_EQ(tied->ties()[0].name, "lm_head.weight");
  EXPECT_EQ(tied->ties()[0].canonical, "model.decoder.embed_tokens.weight");
  EXPECT_TRUE(make_model(kSmall.with_json("tie_word_embeddings", "false"), "OPTForCausalLM")->ties().empty());
}

TEST(OptModel, ABlockIsAUnit) {
  EXPECT_EQ(unit_names(*make_model(kSmall, "OPTForCausalLM")),
            (std::vector<std::string>{"prologue", "decoder.layers.0", "decoder.layers.1", "epilogue"}));
}

TEST(OptModel, BeginsAsHuggingFaceDoes) {
  const auto model = make_model(kSmall, "OPTForQuestionAnswering");
  for (const char* name : {"model.decoder.embed_tokens.weight", "model.decoder.embed_positions.weight",
                           "model.decoder.project_in.weight", "model.decoder.project_out.weight",
                           "model.decoder.layers.0.self_attn.out_proj.weight",
                           "model.decoder.layers.1.fc2.weight", "qa_outputs.weight"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kNormal) << name;
    EXPECT_EQ(model->initial(name).second, 0.05) << name;
  }
  for (const char* name : {"model.decoder.layers.0.self_attn.q_proj.bias", "qa_outputs.bias",
                           "model.decoder.layers.1.self_attn_layer_norm.bias"})
    EXPECT_EQ(model->initial(name).first, 0) << name;
  for (const char* name :
       {"model.decoder.final_layer_norm.weight", "model.decoder.layers.1.final_layer_norm.weight",
        "model.decoder.layers.0.self_attn_layer_norm.weight"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kConstant) << name;
    EXPECT_EQ(model->initial(name).first, 1) << name;
  }
}

// The row of id 3 has 4 elements.
TEST(OptModel, BeginsWithARowOfZerosForPadding) {
  const auto initial = [](const Config& config) {
    return make_model(config, "OPTModel")->initial("decoder.embed_tokens.weight");
  };
  EXPECT_EQ(initial(kSmall).zeros_begin, 12);
  EXPECT_EQ(initial(kSmall).zeros_end, 16);
  EXPECT_EQ(initial(kSmall.with_json("pad_token_id", "null")).zeros_end, 0);
  EXPECT_EQ(make_model(kSmall, "OPTModel")->initial("decoder.embed_positions.weight").zeros_end, 0);
}

TEST(OptModel, IgnoresTheVersionOfOldCheckpointsOnly) {
  const auto model = make_model(kSmall, "OPTForCausalLM");
  EXPECT_TRUE(model->ignored_on_load("model.decoder.version"));
  EXPECT_TRUE(model->ignored_on_load("decoder.version"));
  EXPECT_FALSE(model->ignored_on_load("model.decoder.embed_positions.weight"));
}

// Each kind of dropout by itself: of what attention and MLP add, and of attention weights.
TEST(OptModel, DropsOutInTrainingOnly) {
  for (const auto& [dropout, attention] : {std::pair("0.5", "0.0"), std::pair("0.0", "0.5")}) {
    const auto model = make_model(
        kSmall.with_json("dropout", dropout).with_json("attention_dropout", attention), "OPTModel");
    bind_random(*model, 3);
    SCOPED_TRACE(dropout);
    expect_dropout_in_training_only(*model, batch(ids({1, 6})));
  }
}

// Positions count the tokens that are attended to, so padding on the left moves nothing.
TEST(OptModel, CountsPositionsWithoutPadding) {
  const auto model = make_model(kSmall.with_json("dropout", "0"), "OPTModel");
  bind_random(*model, 1);
  const at::Tensor plain = run(*model, batch(ids({1, 4}))).at("last_hidden_state");
  Batch padded = batch(at::cat({at::full({1, 2}, 3, at::kLong), ids({1, 4})}, 1));
  padded.set("attention_mask", at::tensor({0, 0, 1, 1, 1, 1}).view({1, 6}));
  const at::Tensor moved = run(*model, padded).at("last_hidden_state").narrow(1, 2, 4);
  EXPECT_TRUE(at::allclose(moved, plain, 1e-5, 1e-6));
  padded.set("position_ids", at::arange(6).view({1, 6}));  // given ones are taken as they are
  EXPECT_FALSE(at::allclose(run(*model, padded).at("last_hidden_state").narrow(1, 2, 4), plain, 1e-3, 1e-3));
}

}  // namespace

}  // namespace weft::test
