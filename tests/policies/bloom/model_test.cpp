// Names, ties, units, initial values and distances of the models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

const Config kSmall = Config::parse(
    R"({"vocab_size": 11, "hidden_size": 12, "n_head": 3, "n_layer": 2, "initializer_range": 0.05,
        "num_labels": 3})",
    "config.json");

Batch batch(at::Tensor ids) {
  return {{"input_ids", std::move(ids)}};
}

at::Tensor ids(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape)).remainder(10).add(1).view(shape);
}

TEST(BloomModel, RefusesFieldsThatItDoesNotTake) {
  const auto model = make_model(kSmall, "BloomForCausalLM");
  Batch placed = batch(ids({2, 3}));
  placed.set("position_ids", ids({2, 3}));
  EXPECT_ERROR(model->input(placed), WEFT_INVALID_ARGUMENT, "BloomForCausalLM", "position_ids");
  EXPECT_ERROR(model->input(batch(at::full({1, 2}, 11, at::kLong))), WEFT_INVALID_ARGUMENT, "input_ids",
               "11");
}

TEST(BloomModel, TiesTheHeadToTheEmbeddingUnlessTold) {
  const auto tied = make_model(kSmall, "BloomForCausalLM");
  const auto parameters = tied->named_parameters();
  EXPECT_EQ(parameters["lm_head.weight"].unsafeGetTensorImpl(),
            parameters["transformer.word_embeddings.weight"].unsafeGetTensorImpl());
  ASSERT_EQ(tied->ties().size(), 1);
  EXPECT_EQ(tied->ties()[0].canonical, "transformer.word_embeddings.weight");
  EXPECT_TRUE(
      make_model(kSmall.with_json("tie_word_embeddings", "false"), "BloomForCausalLM")->ties().empty());
}

TEST(BloomModel, ABlockIsAUnit) {
  EXPECT_EQ(unit_names(*make_model(kSmall, "BloomForCausalLM")),
            (std::vector<std::string>{"prologue", "h.0", "h.1", "epilogue"}));
}

TEST(BloomModel, BeginsAsHuggingFaceDoes) {
  const auto model = make_model(kSmall, "BloomForTokenClassification");
  for (const char* name : {"transformer.word_embeddings.weight", "transformer.h.0.mlp.dense_4h_to_h.weight",
                           "transformer.h.1.self_attention.query_key_value.weight", "classifier.weight"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kNormal) << name;
    EXPECT_EQ(model->initial(name).second, 0.05) << name;
  }
  for (const char* name : {"transformer.h.1.self_attention.dense.bias", "classifier.bias",
                           "transformer.word_embeddings_layernorm.bias"})
    EXPECT_EQ(model->initial(name).first, 0) << name;
  for (const char* name :
       {"transformer.word_embeddings_layernorm.weight", "transformer.h.0.input_layernorm.weight",
        "transformer.h.1.post_attention_layernorm.weight", "transformer.ln_f.weight"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kConstant) << name;
    EXPECT_EQ(model->initial(name).first, 1) << name;
  }
}

TEST(BloomModel, DropsOutInTrainingOnly) {
  for (const auto& [hidden, attention] : {std::pair("0.5", "0.0"), std::pair("0.0", "0.5")}) {
    const auto model = make_model(
        kSmall.with_json("hidden_dropout", hidden).with_json("attention_dropout", attention), "BloomModel");
    bind_random(*model, 3);
    SCOPED_TRACE(hidden);
    expect_dropout_in_training_only(*model, batch(ids({1, 6})));
  }
}

// Nothing but the distances tells positions apart. Padding within a sequence does not count.
TEST(BloomModel, CountsDistancesWithoutPadding) {
  const auto model = make_model(kSmall, "BloomModel");
  bind_random(*model, 1);
  const at::Tensor plain = run(*model, batch(ids({1, 4}))).at("last_hidden_state");
  Batch padded = batch(at::tensor({9, 1, 2, 9, 9, 3, 4}).view({1, 7}));
  padded.set("attention_mask", at::tensor({0, 1, 1, 0, 0, 1, 1}).view({1, 7}));
  const at::Tensor kept =
      run(*model, padded).at("last_hidden_state").index_select(1, at::tensor({1, 2, 5, 6}));
  EXPECT_TRUE(at::allclose(kept, plain, 1e-4, 1e-5));
}

}  // namespace

}  // namespace weft::test
