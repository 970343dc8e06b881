// Names, units, initial values, padding and positions of the models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

const Config kSmall = Config::parse(
    R"({"padded_vocab_size": 11, "seq_length": 6, "hidden_size": 8, "ffn_hidden_size": 12, "kv_channels": 6,
        "num_attention_heads": 4, "multi_query_attention": true, "multi_query_group_num": 2, "num_layers": 2,
        "add_qkv_bias": true})",
    "config.json");

Batch batch(at::Tensor ids) {
  return {{"input_ids", std::move(ids)}};
}

at::Tensor ids(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape)).remainder(10).add(1).view(shape);
}

at::Tensor hidden_of(nn::Model& model, const at::Tensor& input, const std::vector<int64_t>& mask) {
  Batch masked = batch(input);
  masked.set("attention_mask", at::tensor(mask).view({1, -1}));
  return run(model, masked).at("last_hidden_state").detach();
}

TEST(ChatGlmModel, RefusesFieldsAndSequencesThatItDoesNotTake) {
  const auto model = make_model(kSmall, "ChatGLMForConditionalGeneration");
  Batch full = batch(ids({2, 3}));
  full.set("full_attention_mask", at::zeros({2, 1, 3, 3}));
  EXPECT_ERROR(model->input(full), WEFT_INVALID_ARGUMENT, "ChatGLMForConditionalGeneration",
               "full_attention_mask");
  EXPECT_ERROR(model->input(batch(ids({2, 7}))), WEFT_INVALID_ARGUMENT, "7 positions", "seq_length", "6");
  EXPECT_ERROR(model->input(batch(at::full({1, 2}, 11, at::kLong))), WEFT_INVALID_ARGUMENT, "input_ids",
               "11");
}

TEST(ChatGlmModel, HasThePublishedNames) {
  const auto names = [](const Config& config) {
    std::set<std::string> names;
    for (const auto& item : make_model(config.with_json("num_layers", "1"), "ChatGLMForConditionalGeneration")
                                ->named_parameters())
      names.insert(item.key());
    return names;
  };
  const std::string layer = "transformer.encoder.layers.0.";
  const std::set<std::string> expected = {"transformer.embedding.word_embeddings.weight",
                                          "transformer.encoder.final_layernorm.weight",
                                          "transformer.output_layer.weight",
                                          layer + "input_layernorm.weight",
                                          layer + "mlp.dense_4h_to_h.weight",
                                          layer + "mlp.dense_h_to_4h.weight",
                                          layer + "post_attention_layernorm.weight",
                                          layer + "self_attention.dense.weight",
                                          layer + "self_attention.query_key_value.bias",
                                          layer + "self_attention.query_key_value.weight"};
  EXPECT_EQ(names(kSmall), expected);
  std::set<std::string> biased = expected;
  for (const char* name : {"mlp.dense_4h_to_h.bias", "mlp.dense_h_to_4h.bias", "self_attention.dense.bias",
                           "input_layernorm.bias", "post_attention_layernorm.bias"})
    biased.insert(layer + name);
  biased.erase("transformer.encoder.final_layernorm.weight");
  EXPECT_EQ(names(kSmall.with_json("add_bias_linear", "true")
                      .with_json("add_qkv_bias", "false")
                      .with_json("rmsnorm", "false")
                      .with_json("post_layer_norm", "false")),
            biased);
}

TEST(ChatGlmModel, ABlockIsAUnit) {
  EXPECT_EQ(unit_names(*make_model(kSmall, "ChatGLMForConditionalGeneration")),
            (std::vector<std::string>{"prologue", "encoder.layers.0", "encoder.layers.1", "epilogue"}));
}

TEST(ChatGlmModel, TiesNothing) {
  const auto model =
      make_model(kSmall.with_json("tie_word_embeddings", "true"), "ChatGLMForConditionalGeneration");
  EXPECT_TRUE(model->ties().empty());
  const auto parameters = model->named_parameters();
  EXPECT_NE(parameters["transformer.output_layer.weight"].unsafeGetTensorImpl(),
            parameters["transformer.embedding.word_embeddings.weight"].unsafeGetTensorImpl());
}

// 8 channels of hidden states, 24 of heads, 12 of the MLP.
TEST(ChatGlmModel, BeginsAsTorchDoes) {
  const auto model = make_model(kSmall.with_json("rmsnorm", "false").with_json("add_bias_linear", "true"),
                                "ChatGLMForConditionalGeneration");
  const auto initial = [&](const std::string& name) { return model->initial("transformer." + name); };
  const std::string layer = "encoder.layers.1.";
  for (const auto& [name, in] : {std::pair{layer + "self_attention.query_key_value.weight", 8},
                                 {layer + "self_attention.query_key_value.bias", 8},
                                 {layer + "self_attention.dense.weight", 24},
                                 {layer + "self_attention.dense.bias", 24},
                                 {layer + "mlp.dense_h_to_4h.weight", 8},
                                 {layer + "mlp.dense_4h_to_h.weight", 12},
                                 {layer + "mlp.dense_4h_to_h.bias", 12},
                                 {std::string("output_layer.weight"), 8}}) {
    EXPECT_EQ(initial(name).kind, nn::Initial::Kind::kUniform) << name;
    EXPECT_DOUBLE_EQ(initial(name).first, -1 / std::sqrt(in)) << name;
    EXPECT_DOUBLE_EQ(initial(name).second, 1 / std::sqrt(in)) << name;
  }
  EXPECT_EQ(initial("embedding.word_embeddings.weight").kind, nn::Initial::Kind::kNormal);
  EXPECT_EQ(initial("embedding.word_embeddings.weight").second, 1);
  for (const std::string& name : {layer + "input_layernorm", layer + "post_attention_layernorm",
                                  std::string("encoder.final_layernorm")}) {
    EXPECT_EQ(initial(name + ".weight").kind, nn::Initial::Kind::kConstant) << name;
    EXPECT_EQ(initial(name + ".weight").first, 1) << name;
    EXPECT_EQ(initial(name + ".bias").kind, nn::Initial::Kind::kConstant) << name;
    EXPECT_EQ(initial(name + ".bias").first, 0) << name;
  }
}

TEST(ChatGlmModel, IgnoresWhatThePublishedClassesStoreAndDoNotRead) {
  const auto model = make_model(kSmall, "ChatGLMForConditionalGeneration"),
             base = make_model(kSmall, "ChatGLMModel");
  EXPECT_TRUE(model->ignored_on_load("transformer.rotary_pos_emb.inv_freq"));
  EXPECT_TRUE(base->ignored_on_load("rotary_pos_emb.inv_freq"));
  EXPECT_TRUE(base->ignored_on_load("transformer.output_layer.weight"));
  EXPECT_FALSE(model->ignored_on_load("transformer.output_layer.weight"));
  EXPECT_FALSE(base->ignored_on_load("encoder.final_layernorm.weight"));
}

TEST(ChatGlmModel, DropsOutInTrainingOnly) {
  for (const char* key : {"hidden_dropout", "attention_dropout"}) {
    const auto model = make_model(kSmall.with_json(key, "0.5"), "ChatGLMModel");
    bind_random(*model, 3);
    SCOPED_TRACE(key);
    expect_dropout_in_training_only(*model, batch(ids({1, 6})));
  }
}

// Tokens see the tokens up to themselves, and padding sees every position, later ones too.
TEST(ChatGlmModel, PaddingSeesEverythingAndNoTokenSeesIt) {
  const auto model = make_model(kSmall, "ChatGLMModel");
  bind_random(*model, 1);
  const std::vector<int64_t> mask = {0, 1, 1, 1, 0, 0};
  const at::Tensor before = hidden_of(*model, ids({1, 6}), mask);
  const auto changed = [&](int64_t position) {
    at::Tensor other = ids({1, 6}).clone();
    other[0][position] = 10;
    const at::Tensor moved = (hidden_of(*model, other, mask) - before).abs().amax(-1)[0].gt(1e-6);
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < 6; ++i)
      if (moved[i].item<bool>()) positions.push_back(i);
    return positions;
  };
  EXPECT_EQ(changed(0), (std::vector<int64_t>{0, 4, 5}));
  EXPECT_EQ(changed(2), (std::vector<int64_t>{0, 2, 3, 4, 5}));
  EXPECT_EQ(changed(5), (std::vector<int64_t>{0, 4, 5}));
}

// Rotary positions are relative: the same distances give the same outputs.
TEST(ChatGlmModel, TellsDistancesNotPlaces) {
  const auto model = make_model(kSmall, "ChatGLMModel");
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
