// What input() refuses, and which tokens a position sees.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

constexpr const char* kTiny =
    R"({"vocab_size": 11, "max_position_embeddings": 6, "hidden_size": 8, "intermediate_size": 12,
        "num_attention_heads": 2, "num_hidden_layers": 2, "type_vocab_size": 3, "num_labels": 3,
        "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "pad_token_id": 0})";

std::shared_ptr<nn::Model> tiny(std::string_view architecture, const char* is_decoder = "false") {
  const Config config = Config::parse(kTiny, "config.json");
  const auto model = make_model(config.with_json("is_decoder", is_decoder), architecture);
  bind_random(*model, 1);
  return model;
}

at::Tensor ids(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape)).remainder(10).add(1).view(shape);
}

Batch batch(std::initializer_list<State::Field> fields) {
  return Batch(fields);
}

TEST(BertInput, RefusesWrongShapesAndValues) {
  EXPECT_ERROR(tiny("BertModel")->input(batch({{"input_ids", ids({2, 3})}, {"labels", ids({2, 3})}})),
               WEFT_INVALID_ARGUMENT, "BertModel", "labels", "token_type_ids");
  EXPECT_ERROR(tiny("BertForMaskedLM")->input(batch({{"input_ids", ids({2, 7})}})), WEFT_INVALID_ARGUMENT,
               "7 positions", "max_position_embeddings", "6");
  EXPECT_ERROR(
      tiny("BertModel")
          ->input(batch({{"input_ids", ids({2, 3})}, {"token_type_ids", at::full({2, 3}, 3, at::kLong)}})),
      WEFT_INVALID_ARGUMENT, "token_type_ids", "3", "0 to 2");
  EXPECT_ERROR(tiny("BertForNextSentencePrediction")
                   ->input(batch({{"input_ids", ids({2, 3})}, {"labels", at::full({2}, 2, at::kLong)}})),
               WEFT_INVALID_ARGUMENT, "labels", "2", "0 to 1");
  EXPECT_ERROR(tiny("BertForSequenceClassification")
                   ->input(batch({{"input_ids", ids({2, 3})}, {"labels", at::zeros({2, 2})}})),
               WEFT_INVALID_ARGUMENT, "labels", "[2, 2]", "[2, 3]");
}

TEST(BertInput, RefusesOneOfThePreTrainingLabels) {
  const auto model = tiny("BertForPreTraining");
  EXPECT_ERROR(model->input(batch({{"input_ids", ids({2, 3})}, {"labels", ids({2, 3})}})),
               WEFT_INVALID_ARGUMENT, "labels", "next_sentence_label");
  EXPECT_ERROR(
      model->input(batch({{"input_ids", ids({2, 3})}, {"next_sentence_label", at::ones({2}, at::kLong)}})),
      WEFT_INVALID_ARGUMENT, "next_sentence_label", "\"labels\"");
}

TEST(BertInput, RefusesChoicesThatAreNone) {
  const auto model = tiny("BertForMultipleChoice");
  EXPECT_ERROR(model->input(batch({{"input_ids", ids({2, 3})}})), WEFT_INVALID_ARGUMENT,
               "BertForMultipleChoice", "input_ids", "[2, 3]", "(samples, choices, positions)");
  const auto labelled = [](const at::Tensor& labels) {
    return batch({{"input_ids", ids({2, 3, 4})}, {"labels", labels}});
  };
  EXPECT_ERROR(model->input(labelled(at::full({2}, 3, at::kLong))), WEFT_INVALID_ARGUMENT, "labels", "3",
               "0 to 2");
  EXPECT_ERROR(model->input(labelled(at::zeros({6}, at::kLong))), WEFT_INVALID_ARGUMENT, "labels", "[6]",
               "[2]");
  EXPECT_EQ(run(*model, labelled(at::zeros({2}, at::kLong))).at("logits").sizes(), at::IntArrayRef({2, 3}));
}

// A position of an encoder sees all others, one of a decoder those before it.
TEST(BertInput, APositionSeesLaterTokensInAnEncoderOnly) {
  at::Tensor first = ids({1, 6}), second = first.clone();
  second[0][4] = 7;
  for (const bool decodes : {false, true}) {
    const auto model = tiny("BertModel", decodes ? "true" : "false");
    const auto output = [&](const at::Tensor& tokens) {
      return run(*model, batch({{"input_ids", tokens}})).at("last_hidden_state").slice(1, 0, 4);
    };
    EXPECT_EQ(output(first).equal(output(second)), decodes);
  }
}

TEST(BertInput, MaskedTokensDoNotMatter) {
  const auto model = tiny("BertModel");
  at::Tensor first = ids({1, 6}), second = first.clone();
  second[0][0] = 7;
  second[0][5] = 3;
  const at::Tensor mask = at::tensor({0, 1, 1, 1, 1, 0}, at::kLong).view({1, 6});
  const auto output = [&](const at::Tensor& tokens) {
    return run(*model, batch({{"input_ids", tokens}, {"attention_mask", mask}}))
        .at("last_hidden_state")
        .slice(1, 1, 5);
  };
  EXPECT_TRUE(output(first).equal(output(second)));
}

TEST(BertInput, WithoutTypesTheyAreZero) {
  const auto model = tiny("BertModel");
  const auto output = [&](int64_t type) {
    return run(*model,
               batch({{"input_ids", ids({2, 3})}, {"token_type_ids", at::full({2, 3}, type, at::kLong)}}))
        .at("pooler_output");
  };
  EXPECT_TRUE(run(*model, batch({{"input_ids", ids({2, 3})}})).at("pooler_output").equal(output(0)));
  EXPECT_FALSE(output(0).equal(output(1)));
}

}  // namespace

}  // namespace weft::test
