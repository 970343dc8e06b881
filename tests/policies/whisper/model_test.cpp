// Names, ties, units and initial values of the models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "layers/initialise.hpp"
#include "policies/oracle.hpp"
#include "weft/nn/layers.hpp"
#include "whisper_layers.hpp"
#include "whisper_model.hpp"

namespace weft::test {

namespace {

constexpr const char* kWhisperGeneration = "WhisperForConditionalGeneration";
constexpr const char* kWhisperClassifier = "WhisperForAudioClassification";

const Config kSmall = Config::parse(
    R"({"vocab_size": 11, "num_mel_bins": 3, "d_model": 8, "encoder_layers": 2, "encoder_attention_heads": 2,
        "encoder_ffn_dim": 12, "decoder_layers": 3, "decoder_attention_heads": 4, "decoder_ffn_dim": 10,
        "max_source_positions": 4, "max_target_positions": 6, "pad_token_id": 2, "decoder_start_token_id": 1,
        "init_std": 0.05, "classifier_proj_size": 5})",
    "config.json");

TEST(WhisperModel, TiesTheHeadToTheEmbeddingUnlessTold) {
  const auto tied = make_model(kSmall, kWhisperGeneration);
  ASSERT_EQ(tied->ties().size(), 1);
  EXPECT_EQ(tied->ties()[0].name, "proj_out.weight");
  EXPECT_EQ(tied->ties()[0].canonical, "model.decoder.embed_tokens.weight");
  const auto parameters = tied->named_parameters();
  EXPECT_TRUE(parameters["proj_out.weight"].is_same(parameters["model.decoder.embed_tokens.weight"]));
  EXPECT_TRUE(
      make_model(kSmall.with_json("tie_word_embeddings", "false"), kWhisperGeneration)->ties().empty());
}

TEST(WhisperModel, TrainsANewHead) {
  const auto classifier = make_model(kSmall.with_json("use_weighted_layer_sum", "true"), kWhisperClassifier);
  for (const char* head : {"projector.weight", "classifier.bias", "layer_weights"})
    EXPECT_TRUE(classifier->may_begin_new(head)) << head;
  EXPECT_FALSE(classifier->may_begin_new("encoder.conv1.weight"));
  const auto generation = make_model(kSmall, kWhisperGeneration);
  EXPECT_TRUE(generation->may_begin_new("proj_out.weight"));
  EXPECT_FALSE(generation->may_begin_new("model.decoder.embed_positions.weight"));
  EXPECT_FALSE(make_model(kSmall, "WhisperModel")->may_begin_new("decoder.layer_norm.weight"));
}

// A unit has frozen parameters or trained ones, never both, as strategies that flatten a unit need.
TEST(WhisperModel, ABlockIsAUnitAndSoAreThePositionsAndTheEndOfTheEncoder) {
  EXPECT_EQ(unit_names(*make_model(kSmall, "WhisperModel")),
            (std::vector<std::string>{"prologue", "encoder.embed_positions", "encoder.layers.0",
                                      "encoder.layers.1", "encoder.end", "decoder.layers.0",
                                      "decoder.layers.1", "decoder.layers.2", "epilogue"}));
  EXPECT_EQ(unit_names(*make_model(kSmall, kWhisperClassifier)),
            (std::vector<std::string>{"prologue", "encoder.embed_positions", "encoder.layers.0",
                                      "encoder.layers.1", "epilogue"}));
  EXPECT_EQ(unit_names(*make_model(kSmall.with_json("use_weighted_layer_sum", "true"), kWhisperClassifier)),
            (std::vector<std::string>{"prologue", "encoder.embed_positions", "encoder.layers.0",
                                      "encoder.layers.1", "encoder.layer_norm", "epilogue"}));
}

TEST(WhisperModel, HasNoBiasOfKeys) {
  const auto model = make_model(kSmall, kWhisperGeneration);
  size_t found = 0;
  for (const auto& item : model->named_parameters()) {
    found += item.key().find("k_proj") != std::string::npos;
    EXPECT_FALSE(item.key().ends_with("k_proj.bias")) << item.key();
  }
  EXPECT_EQ(found, 2 + 2 * 3);
}

TEST(WhisperModel, HasALayerSumWhereAskedFor) {
  const auto has = [](const char* config, const char* architecture) {
    return make_model(kSmall.with_json("use_weighted_layer_sum", config), architecture)
        ->named_parameters()
        .contains("layer_weights");
  };
  EXPECT_TRUE(has("true", kWhisperClassifier));
  EXPECT_FALSE(has("false", kWhisperClassifier));
  EXPECT_FALSE(has("true", kWhisperGeneration));
}

// See _init_weights in transformers/models/whisper/modeling_whisper.py.
TEST(WhisperModel, BeginsAsHuggingFaceDoes) {
  const auto model = make_model(kSmall, kWhisperGeneration);
  for (const char* name :
       {"model.encoder.conv1.weight", "model.encoder.conv2.weight", "model.decoder.embed_positions.weight",
        "model.decoder.embed_tokens.weight", "model.encoder.layers.0.self_attn.k_proj.weight",
        "model.decoder.layers.1.encoder_attn.out_proj.weight", "model.decoder.layers.2.fc1.weight"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kNormal) << name;
    EXPECT_EQ(model->initial(name).first, 0) << name;
    EXPECT_EQ(model->initial(name).second, 0.05) << name;
  }
  const nn::Initial embedding = model->initial("model.decoder.embed_tokens.weight");
  EXPECT_EQ(embedding.zeros_begin, 2 * 8);
  EXPECT_EQ(embedding.zeros_end, 3 * 8);
  EXPECT_EQ(model->initial("model.decoder.embed_positions.weight").zeros_end, 0);
  EXPECT_EQ(make_model(kSmall.with_json("pad_token_id", "null"), kWhisperGeneration)
                ->initial("model.decoder.embed_tokens.weight")
                .zeros_end,
            0);
  for (const char* name :
       {"model.encoder.conv1.bias", "model.encoder.layer_norm.bias",
        "model.decoder.layers.0.encoder_attn_layer_norm.bias", "model.encoder.layers.1.fc2.bias"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kConstant) << name;
    EXPECT_EQ(model->initial(name).first, 0) << name;
  }
  for (const char* name :
       {"model.decoder.layer_norm.weight", "model.encoder.layers.0.self_attn_layer_norm.weight"})
    EXPECT_EQ(model->initial(name).first, 1) << name;
  const auto classifier = make_model(kSmall.with_json("use_weighted_layer_sum", "true"), kWhisperClassifier);
  EXPECT_EQ(classifier->initial("layer_weights").kind, nn::Initial::Kind::kConstant);
  EXPECT_DOUBLE_EQ(classifier->initial("layer_weights").first, 1 / 3.0);
  EXPECT_EQ(classifier->initial("projector.weight").second, 0.05);
  EXPECT_EQ(classifier->initial("classifier.bias").first, 0);
}

// Late positions have large angles, which rounding moves.
TEST(WhisperModel, HasThePositionsOfHuggingFace) {
  const std::string path = std::string(WEFT_ORACLES) + "/../speech/speech.json";
  const nlohmann::json oracle = parse_json(read_file(path, 1 << 20), path);
  ASSERT_EQ(oracle.at("sinusoids").size(), 4);
  for (const nlohmann::json& one : oracle.at("sinusoids")) {
    const int64_t positions = one.at("positions"), channels = one.at("channels");
    const at::Tensor table = at::empty({positions, channels});
    nn::initialise(nn::Initial::sinusoids(channels), 1, "any", {positions, channels},
                   {{0, 0}, {positions, channels}}, table);
    for (const nlohmann::json& row : one.at("rows")) {
      const int64_t position = row.at("position");
      const at::Tensor expected = at::tensor(row.at("values").get<std::vector<double>>(), at::kDouble);
      const double difference = (table[position].to(at::kDouble) - expected).abs().max().item<double>();
      EXPECT_LT(difference, position < 10 ? 1e-6 : 2e-4) << positions << " " << channels << " " << position;
    }
    // A part of the flattened table has the values of the whole.
    const at::Tensor part = at::empty({channels + 3});
    nn::initialise(nn::Initial::sinusoids(channels), 1, "any", channels - 1, part);
    EXPECT_TRUE(part.equal(table.flatten().narrow(0, channels - 1, channels + 3)));
  }
  for (const char* architecture : {"WhisperModel", kWhisperClassifier}) {
    const auto model = make_model(kSmall, architecture);
    EXPECT_EQ(model->initial("encoder.embed_positions.weight").kind, nn::Initial::Kind::kSinusoids);
    EXPECT_EQ(model->initial("encoder.embed_positions.weight").first, 8);
  }
}

TEST(WhisperModel, TrainsEveryParameterButThePositionsOfTheEncoder) {
  for (const char* architecture : {"WhisperModel", kWhisperGeneration, kWhisperClassifier}) {
    const auto model = make_model(kSmall, architecture);
    size_t frozen = 0;
    for (const auto& item : model->named_parameters()) {
      frozen += model->frozen(item.key());
      EXPECT_EQ(model->frozen(item.key()), item.key().ends_with("encoder.embed_positions.weight"))
          << item.key();
    }
    EXPECT_EQ(frozen, 1) << architecture;
  }
}

TEST(WhisperModel, IgnoresOnLoadWhatItsClassDoesNotHave) {
  for (const char* entry :
       {"model.decoder.layer_norm.weight", "decoder.embed_tokens.weight", "proj_out.weight"}) {
    EXPECT_TRUE(make_model(kSmall, kWhisperClassifier)->ignored_on_load(entry)) << entry;
    EXPECT_FALSE(make_model(kSmall, kWhisperGeneration)->ignored_on_load(entry)) << entry;
  }
  EXPECT_FALSE(make_model(kSmall, kWhisperClassifier)->ignored_on_load("encoder.layer_norm.scale"));
}

TEST(WhisperModel, LetsAPlanDivideTheHeadsOfEveryAttention) {
  int found = 0;
  for (const auto& item : make_model(kSmall, kWhisperGeneration)->named_modules()) {
    const auto layer = std::dynamic_pointer_cast<nn::Layer>(item.value());
    if (!layer || layer->kind() != "Attention") continue;
    ++found;
    ASSERT_EQ(layer->attributes().size(), 1u) << item.key();
    EXPECT_EQ(layer->attributes()[0].first, "num_heads");
    EXPECT_EQ(*layer->attributes()[0].second, item.key().find("decoder") == std::string::npos ? 2 : 4);
  }
  EXPECT_EQ(found, 2 + 2 * 3);
}

TEST(WhisperModel, HasAnExampleWithinItsPositions) {
  const auto model = make_model(kSmall, kWhisperGeneration);
  const std::optional<Batch> example = model->example(2, 1024);
  ASSERT_TRUE(example);
  EXPECT_EQ(example->at("input_features").sizes(), (at::IntArrayRef{2, 3, 8}));
  EXPECT_EQ(example->at("decoder_input_ids").sizes(), (at::IntArrayRef{2, 6}));
  EXPECT_NO_THROW(model->input(*example));
}

// Each kind of dropout by itself: of what layers add, of attention weights, and inside of an MLP.
TEST(WhisperModel, DropsOutInTrainingOnly) {
  const Batch batch = {{"input_features", at::ones({1, 3, 8})}};
  for (const char* key : {"dropout", "attention_dropout", "activation_dropout"}) {
    const auto model = make_model(kSmall.with_json(key, "0.5"), kWhisperClassifier);
    bind_random(*model, 3);
    SCOPED_TRACE(key);
    expect_dropout_in_training_only(*model, batch, "logits");
  }
}

TEST(WhisperBlock, KeepsFp16Finite) {
  const at::Tensor large =
      at::tensor({1.0F, 65504.0F, -std::numeric_limits<float>::infinity()}).to(at::kHalf);
  EXPECT_TRUE(whisper::finite(large).to(at::kFloat).equal(at::tensor({1.0F, 64512.0F, -64512.0F})));
  EXPECT_TRUE(whisper::finite(large.to(at::kFloat)).isinf().any().item<bool>());
}

}  // namespace

}  // namespace weft::test
