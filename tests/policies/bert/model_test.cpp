// Names, ties, units and initial values of the models.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::test {

namespace {

const Config kSmall = Config::parse(
    R"({"vocab_size": 11, "max_position_embeddings": 6, "hidden_size": 8, "intermediate_size": 12,
        "num_attention_heads": 2, "num_hidden_layers": 2, "initializer_range": 0.05, "pad_token_id": 3})",
    "config.json");

// As the loaders of transformers 4 and 5 do; of the bias, checkpoints have the name of the parent.
TEST(BertModel, TiesTheDecoderToTheEmbeddingAndItsBiasToItsParents) {
  for (const char* architecture : {"BertForPreTraining", "BertLMHeadModel", "BertForMaskedLM"}) {
    const auto model = make_model(kSmall, architecture);
    const auto parameters = model->named_parameters();
    const std::pair<const char*, const char*> kTies[] = {
        {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
        {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
    ASSERT_EQ(model->ties().size(), 2) << architecture;
    for (size_t i = 0; const auto& [name, canonical] : kTies) {
      EXPECT_EQ(model->ties()[i].name, name);
      EXPECT_EQ(model->ties()[i++].canonical, canonical);
      EXPECT_EQ(parameters[name].unsafeGetTensorImpl(), parameters[canonical].unsafeGetTensorImpl());
    }
  }
  EXPECT_TRUE(make_model(kSmall, "BertForSequenceClassification")->ties().empty());
}

TEST(BertModel, RefusesADecoderOfItsOwnWhereThereIsOne) {
  const Config untied = kSmall.with_json("tie_word_embeddings", "false");
  EXPECT_ERROR(make_model(untied, "BertForMaskedLM"), WEFT_UNIMPLEMENTED, "config.json",
               "tie_word_embeddings", "set it to true");
  EXPECT_NO_THROW(make_model(untied, "BertForTokenClassification"));
}

TEST(BertModel, RefusesOtherLabelsOfAnswers) {
  EXPECT_ERROR(make_model(kSmall.with_json("num_labels", "3"), "BertForQuestionAnswering"),
               WEFT_INVALID_ARGUMENT, "config.json", "3 labels", "num_labels", "BertForQuestionAnswering");
}

// Only those classes have one that read it: transformers makes the others without.
TEST(BertModel, HasAPoolerWhereAHeadReadsIt) {
  const std::set<std::string> with = {"BertForPreTraining", "BertForSequenceClassification",
                                      "BertForNextSentencePrediction", "BertForMultipleChoice"};
  for (const char* architecture :
       {"BertForPreTraining", "BertLMHeadModel", "BertForMaskedLM", "BertForSequenceClassification",
        "BertForTokenClassification", "BertForNextSentencePrediction", "BertForMultipleChoice",
        "BertForQuestionAnswering"})
    EXPECT_EQ(make_model(kSmall, architecture)->named_parameters().contains("bert.pooler.dense.weight"),
              with.contains(architecture))
        << architecture;
  EXPECT_TRUE(make_model(kSmall, "BertModel")->named_parameters().contains("pooler.dense.weight"));
}

TEST(BertModel, ABlockIsAUnit) {
  EXPECT_EQ(unit_names(*make_model(kSmall, "BertForMaskedLM")),
            (std::vector<std::string>{"prologue", "encoder.layer.0", "encoder.layer.1", "epilogue"}));
}

TEST(BertModel, TrainsANewHeadAndPooler) {
  const auto model = make_model(kSmall, "BertForSequenceClassification");
  EXPECT_TRUE(model->may_begin_new("classifier.weight"));
  EXPECT_TRUE(model->may_begin_new("bert.pooler.dense.bias"));
  EXPECT_FALSE(model->may_begin_new("bert.encoder.layer.0.output.dense.weight"));
  const auto base = make_model(kSmall, "BertModel");
  EXPECT_TRUE(base->may_begin_new("pooler.dense.weight"));
  EXPECT_FALSE(base->may_begin_new("embeddings.LayerNorm.weight"));
}

TEST(BertModel, BeginsAsHuggingFaceDoes) {
  const auto model = make_model(kSmall, "BertForPreTraining");
  for (const char* name :
       {"bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight", "bert.encoder.layer.0.attention.self.query.weight",
        "bert.encoder.layer.1.output.dense.weight", "bert.pooler.dense.weight",
        "cls.predictions.transform.dense.weight", "cls.seq_relationship.weight"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kNormal) << name;
    EXPECT_EQ(model->initial(name).second, 0.05) << name;
  }
  for (const char* name : {"cls.predictions.bias", "bert.pooler.dense.bias",
                           "bert.encoder.layer.1.attention.output.LayerNorm.bias"})
    EXPECT_EQ(model->initial(name).first, 0) << name;
  for (const char* name : {"bert.embeddings.LayerNorm.weight", "cls.predictions.transform.LayerNorm.weight",
                           "bert.encoder.layer.0.output.LayerNorm.weight"}) {
    EXPECT_EQ(model->initial(name).kind, nn::Initial::Kind::kConstant) << name;
    EXPECT_EQ(model->initial(name).first, 1) << name;
  }
  const Config zero = kSmall.with_json("initializer_range", "0");
  EXPECT_EQ(make_model(zero, "BertModel")->initial("pooler.dense.weight").second, 0.02);
}

// The row of id 3 has 8 elements.
TEST(BertModel, BeginsWithARowOfZerosForPadding) {
  const auto initial = [](const Config& config, const char* name) {
    return make_model(config, "BertModel")->initial(name);
  };
  EXPECT_EQ(initial(kSmall, "embeddings.word_embeddings.weight").zeros_begin, 24);
  EXPECT_EQ(initial(kSmall, "embeddings.word_embeddings.weight").zeros_end, 32);
  EXPECT_EQ(initial(kSmall, "embeddings.position_embeddings.weight").zeros_end, 0);
  EXPECT_EQ(initial(kSmall.with_json("pad_token_id", "null"), "embeddings.word_embeddings.weight").zeros_end,
            0);
}

TEST(BertModel, IgnoresThePositionsOfOldCheckpointsOnly) {
  const auto model = make_model(kSmall, "BertForMaskedLM");
  EXPECT_TRUE(model->ignored_on_load("bert.embeddings.position_ids"));
  EXPECT_FALSE(model->ignored_on_load("bert.embeddings.position_embeddings.weight"));
}

TEST(BertModel, ContinuesTextAsACausalLanguageModelOnly) {
  const auto continues = [](const Config& config, const char* architecture) {
    const auto model = make_model(config, architecture);
    return nn::find_token_model(*model)->continues_text();
  };
  const Config decoder = kSmall.with_json("is_decoder", "true");
  EXPECT_TRUE(continues(decoder, "BertLMHeadModel"));
  EXPECT_FALSE(continues(kSmall, "BertLMHeadModel"));
  EXPECT_FALSE(continues(decoder, "BertForMaskedLM"));
}

// Each kind of dropout by itself.
TEST(BertModel, DropsOutInTrainingOnly) {
  const Config none = kSmall.with_json("hidden_dropout_prob", "0")
                          .with_json("attention_probs_dropout_prob", "0")
                          .with_json("classifier_dropout", "0");
  const Batch batch = {{"input_ids", at::arange(6).view({1, 6})}};
  for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", ""}) {
    const auto model =
        make_model(*key != 0 ? none.with_json(key, "0.5") : none, "BertForSequenceClassification");
    bind_random(*model, 3);
    const auto output = [&] { return run(*model, batch).at("logits"); };
    EXPECT_EQ(output().equal(output()), *key == 0) << key;
    model->eval();
    EXPECT_TRUE(output().equal(output())) << key;
  }
}

}  // namespace

}  // namespace weft::test
