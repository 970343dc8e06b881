// Names, units and initial values of the models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "layers/initialise.hpp"
#include "policies/oracle.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/batch_fields.hpp"
#include "weft/nn/forward_context.hpp"

namespace weft::test {

namespace {

const Config kSmall = Config::parse(
    R"({"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 12,
        "image_size": 4, "patch_size": 2, "encoder_stride": 2, "initializer_range": 0.05})",
    "config.json");

TEST(VitModel, ABlockIsAUnit) {
  EXPECT_EQ(unit_names(*make_model(kSmall, "ViTForImageClassification")),
            (std::vector<std::string>{"prologue", "encoder.layer.0", "encoder.layer.1", "epilogue"}));
}

// Returns what the last block leaves for the head, of a rank that has `own` of the 5 positions.
at::Tensor left_by_blocks(nn::Model& model, const std::vector<Run>& own) {
  at::manual_seed(3);
  State state = model.input({{"pixel_values", at::randn({2, 3, 4, 4})}});
  nn::ForwardContext context({{.name = "", .positions = 5, .rows = 2, .own = own}});
  const std::vector<nn::Unit*> units = model.units();
  for (size_t unit = 0; unit + 1 < units.size(); ++unit) {
    const nn::RunningUnit running(context, unit);
    units[unit]->forward(state);
  }
  return state.at(nn::kHidden).detach();
}

TEST(VitModel, ComputesInTheLastBlockOfAClassifierTheClassTokenAlone) {
  const std::vector<weft::Run> all = {{0, 5}}, part = {{0, 3}};
  const auto made = [](const char* architecture, const char* key, const char* value) {
    const auto model = make_model(kSmall.with_json(key, value), architecture);
    bind_random(*model, 5);
    model->train();
    return model;
  };
  const auto classifier = made("ViTForImageClassification", "qkv_bias", "true");
  const at::Tensor skipped = left_by_blocks(*classifier, all), whole = left_by_blocks(*classifier, part);
  EXPECT_EQ(skipped.slice(1, 1).abs().max().item<float>(), 0);
  EXPECT_GT(whole.slice(1, 1).abs().min().item<float>(), 0);
  EXPECT_TRUE(is_near(skipped.select(1, 0), whole.select(1, 0), kKernelFp32));
  // Other heads read other positions, and masks of dropout are those of all.
  for (const auto& model :
       {made("ViTModel", "qkv_bias", "true"), made("ViTForMaskedImageModeling", "qkv_bias", "true"),
        made("ViTForImageClassification", "hidden_dropout_prob", "0.1"),
        made("ViTForImageClassification", "attention_probs_dropout_prob", "0.1")})
    EXPECT_GT(left_by_blocks(*model, all).slice(1, 1).abs().amax(2).min().item<float>(), 0);
}

TEST(VitModel, HasAMaskTokenWherePatchesCanBeMasked) {
  const auto has = [](const char* architecture, const char* name) {
    return make_model(kSmall, architecture)->named_parameters().contains(name);
  };
  EXPECT_TRUE(has("ViTForMaskedImageModeling", "vit.embeddings.mask_token"));
  EXPECT_FALSE(has("ViTForImageClassification", "vit.embeddings.mask_token"));
  EXPECT_FALSE(has("ViTModel", "embeddings.mask_token"));
  EXPECT_TRUE(has("ViTModel", "pooler.dense.weight"));
  EXPECT_FALSE(has("ViTForImageClassification", "vit.pooler.dense.weight"));
}

TEST(VitModel, TrainsANewHeadPoolerAndMaskToken) {
  const auto masked = make_model(kSmall, "ViTForMaskedImageModeling");
  EXPECT_TRUE(masked->may_begin_new("decoder.0.weight"));
  EXPECT_TRUE(masked->may_begin_new("vit.embeddings.mask_token"));
  EXPECT_FALSE(masked->may_begin_new("vit.embeddings.cls_token"));
  const auto base = make_model(kSmall, "ViTModel");
  EXPECT_TRUE(base->may_begin_new("pooler.dense.weight"));
  EXPECT_FALSE(base->may_begin_new("layernorm.weight"));
}

TEST(VitModel, HasHeadsOfAnySize) {
  const auto model = make_model(kSmall.with_json("head_dim", "3"), "ViTModel");
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["encoder.layer.0.attention.attention.key.weight"].sizes(), (at::IntArrayRef{6, 8}));
  EXPECT_EQ(parameters["encoder.layer.0.attention.output.dense.weight"].sizes(), (at::IntArrayRef{8, 6}));
}

// See _init_weights in transformers/models/vit/modeling_vit.py.
TEST(VitModel, BeginsAsHuggingFaceDoes) {
  const auto model = make_model(kSmall, "ViTForMaskedImageModeling");
  for (const char* name :
       {"vit.embeddings.cls_token", "vit.embeddings.position_embeddings",
        "vit.embeddings.patch_embeddings.projection.weight", "decoder.0.weight",
        "vit.encoder.layer.0.attention.attention.query.weight", "vit.encoder.layer.1.output.dense.weight"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kNormal) << name;
    EXPECT_EQ(model->initial(name).first, 0) << name;
    EXPECT_EQ(model->initial(name).second, 0.05) << name;
  }
  for (const char* name : {"vit.embeddings.mask_token", "vit.embeddings.patch_embeddings.projection.bias",
                           "vit.encoder.layer.0.layernorm_before.bias", "decoder.0.bias"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kConstant) << name;
    EXPECT_EQ(model->initial(name).first, 0) << name;
  }
  for (const char* name : {"vit.encoder.layer.1.layernorm_after.weight", "vit.layernorm.weight"})
    EXPECT_EQ(model->initial(name).first, 1) << name;
}

// Hugging Face's truncated normal divides by the deviation and fails.
TEST(VitModel, BeginsWithZerosForARangeOfZero) {
  const auto model = make_model(kSmall.with_json("initializer_range", "0"), "ViTModel");
  EXPECT_EQ(model->initial("pooler.dense.weight").second, 0.02);
  const auto values = [&](const std::string& name) {
    const at::Tensor drawn = at::ones({37});
    nn::initialise(model->initial(name), 1, name, 0, drawn);
    return drawn;
  };
  for (const char* name : {"embeddings.cls_token", "embeddings.position_embeddings"})
    EXPECT_TRUE(values(name).equal(at::zeros({37}))) << name;
  EXPECT_FALSE(values("pooler.dense.weight").eq(0).any().item<bool>());
}

TEST(VitModel, TrainsEveryParameter) {
  for (const char* architecture : {"ViTModel", "ViTForMaskedImageModeling"}) {
    const auto model = make_model(kSmall, architecture);
    for (const auto& item : model->named_parameters()) EXPECT_FALSE(model->frozen(item.key())) << item.key();
  }
}

TEST(VitModel, ReconstructsSquareImagesOnly) {
  EXPECT_ERROR(make_model(kSmall.with_json("image_size", "[4, 8]"), "ViTForMaskedImageModeling"),
               WEFT_INVALID_ARGUMENT, "config.json", "ViTForMaskedImageModeling", "[4,8]");
  EXPECT_ERROR(make_model(kSmall.with_json("patch_size", "[2, 1]"), "ViTForMaskedImageModeling"),
               WEFT_INVALID_ARGUMENT, "\"patch_size\" [2,1]");
  EXPECT_NO_THROW(make_model(kSmall.with_json("image_size", "[5, 4]"), "ViTForMaskedImageModeling"));
  EXPECT_NO_THROW(make_model(kSmall.with_json("image_size", "[4, 8]"), "ViTForImageClassification"));
}

// Each kind of dropout by itself: of what layers add, and of attention weights.
TEST(VitModel, DropsOutInTrainingOnly) {
  const Batch batch = {{"pixel_values", at::ones({1, 3, 4, 4})}};
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) {
    const auto model = make_model(kSmall.with_json(key, "0.5"), "ViTModel");
    bind_random(*model, 3);
    SCOPED_TRACE(key);
    expect_dropout_in_training_only(*model, batch);
  }
}

}  // namespace

}  // namespace weft::test
