// Names, ties, units and initial values of the models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "policies/oracle.hpp"
#include "weft/nn/layers.hpp"

namespace weft::test {

namespace {

constexpr const char* kGeneration = "T5ForConditionalGeneration";

const Config kSmall = Config::parse(
    R"({"vocab_size": 11, "d_model": 8, "d_kv": 3, "d_ff": 12, "num_heads": 2, "num_layers": 2,
        "num_decoder_layers": 3, "initializer_factor": 0.5, "decoder_start_token_id": 0})",
    "config.json");

TEST(T5Model, TiesTheEmbeddingsOfBothStacksAndTheHeadUnlessTold) {
  const auto tied = make_model(kSmall, kGeneration);
  const auto same = [](const nn::Model& model, const char* name) {
    const auto parameters = model.named_parameters();
    return parameters[name].unsafeGetTensorImpl() == parameters["shared.weight"].unsafeGetTensorImpl();
  };
  for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"})
    EXPECT_TRUE(same(*tied, name)) << name;
  EXPECT_EQ(tied->ties().size(), 3);
  for (const char* key : {"tie_word_embeddings", "scale_decoder_outputs"}) {
    const auto untied = make_model(kSmall.with_json(key, "false"), kGeneration);
    EXPECT_TRUE(same(*untied, "decoder.embed_tokens.weight"));
    EXPECT_FALSE(same(*untied, "lm_head.weight")) << key;
    EXPECT_EQ(untied->ties().size(), 2);
  }
  const auto classifier = make_model(kSmall, "T5ForTokenClassification");
  ASSERT_EQ(classifier->ties().size(), 1);
  EXPECT_EQ(classifier->ties()[0].name, "transformer.encoder.embed_tokens.weight");
  EXPECT_EQ(classifier->ties()[0].canonical, "transformer.shared.weight");
}

TEST(T5Model, ABlockIsAUnitAndSoIsTheEndOfTheEncoder) {
  EXPECT_EQ(unit_names(*make_model(kSmall, "T5Model")),
            (std::vector<std::string>{"prologue", "encoder.block.0", "encoder.block.1", "encoder.end",
                                      "decoder.block.0", "decoder.block.1", "decoder.block.2", "epilogue"}));
  EXPECT_EQ(unit_names(*make_model(kSmall, "T5EncoderModel")),
            (std::vector<std::string>{"prologue", "encoder.block.0", "encoder.block.1", "epilogue"}));
}

// See _init_weights in transformers/models/t5/modeling_t5.py.
TEST(T5Model, BeginsAsHuggingFaceDoes) {
  const auto model = make_model(kSmall.with_json("tie_word_embeddings", "false"), kGeneration);
  const auto deviation = [&](const std::string& name) {
    EXPECT_TRUE(model->named_parameters().contains(name)) << name;
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kNormal) << name;
    return model->initial(name).second;
  };
  const std::string attention = "decoder.block.0.layer.0.SelfAttention.";
  EXPECT_EQ(deviation("shared.weight"), 0.5);
  EXPECT_EQ(deviation("lm_head.weight"), 0.5);
  EXPECT_DOUBLE_EQ(deviation(attention + "q.weight"), 0.5 / std::sqrt(8.0 * 3));
  EXPECT_DOUBLE_EQ(deviation(attention + "k.weight"), 0.5 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(deviation("decoder.block.2.layer.1.EncDecAttention.v.weight"), 0.5 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(deviation(attention + "o.weight"), 0.5 / std::sqrt(2.0 * 3));
  EXPECT_DOUBLE_EQ(deviation(attention + "relative_attention_bias.weight"), 0.5 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(deviation("encoder.block.1.layer.1.DenseReluDense.wi.weight"), 0.5 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(deviation("encoder.block.1.layer.1.DenseReluDense.wo.weight"), 0.5 / std::sqrt(12.0));
  EXPECT_EQ(model->initial("encoder.final_layer_norm.weight").kind, nn::Initial::Kind::kConstant);
  EXPECT_EQ(model->initial("encoder.final_layer_norm.weight").first, 0.5);
  const auto classifier = make_model(kSmall, "T5ForTokenClassification");
  EXPECT_EQ(classifier->initial("classifier.weight").second, 0.5);
  EXPECT_EQ(classifier->initial("classifier.bias").first, 0);
}

TEST(T5Model, IgnoresOnLoadWhatHuggingFaceDoes) {
  const char* old = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
  EXPECT_TRUE(make_model(kSmall, kGeneration)->ignored_on_load(old));
  EXPECT_FALSE(make_model(kSmall, kGeneration)->ignored_on_load("decoder.final_layer_norm.weight"));
  EXPECT_TRUE(make_model(kSmall, "T5EncoderModel")->ignored_on_load("decoder.final_layer_norm.weight"));
  EXPECT_FALSE(make_model(kSmall, "T5EncoderModel")->ignored_on_load("encoder.final_layer_norm.bias"));
}

TEST(T5Model, LetsAPlanDivideTheHeadsOfEveryAttention) {
  int found = 0;
  for (const auto& item : make_model(kSmall, kGeneration)->named_modules()) {
    const auto layer = std::dynamic_pointer_cast<nn::Layer>(item.value());
    if (!layer || layer->kind() != "Attention") continue;
    ++found;
    ASSERT_EQ(layer->attributes().size(), 1u) << item.key();
    EXPECT_EQ(layer->attributes()[0].first, "n_heads");
    EXPECT_EQ(*layer->attributes()[0].second, 2);
  }
  EXPECT_EQ(found, 2 + 2 * 3);
}

TEST(T5Model, DropsOutInTrainingOnly) {
  const auto model = make_model(kSmall, "T5EncoderModel");
  bind_random(*model, 3);
  const Batch batch = {{"input_ids", at::arange(6).view({1, 6})}};
  expect_dropout_in_training_only(*model, batch);
}

}  // namespace

}  // namespace weft::test
