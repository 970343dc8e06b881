// What input() refuses, and the State that it returns.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

constexpr const char* kTiny =
    R"({"vocab_size": 11, "n_positions": 6, "n_embd": 8, "n_head": 2, "n_layer": 2, "num_labels": 3, "pad_token_id": 0,
        "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0, "summary_first_dropout": 0})";

std::shared_ptr<nn::Model> tiny(std::string_view architecture = "GPT2LMHeadModel") {
  return make_model(Config::parse(kTiny, "config.json"), architecture);
}

at::Tensor ids(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape)).remainder(10).add(1).view(shape);
}

Batch batch(std::initializer_list<State::Field> fields) {
  return Batch(fields);
}

TEST(Gpt2Input, RefusesUnknownFieldsWithTheNearest) {
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"atention_mask", at::ones({2, 3})}})),
               WEFT_INVALID_ARGUMENT, "GPT2LMHeadModel", "atention_mask", "did you mean \"attention_mask\"?");
  EXPECT_ERROR(tiny("GPT2Model")->input(batch({{"input_ids", ids({2, 3})}, {"labels", ids({2, 3})}})),
               WEFT_INVALID_ARGUMENT, "GPT2Model", "labels", "its inputs are");
  EXPECT_ERROR(tiny()->input(batch({{"labels", ids({2, 3})}})), WEFT_INVALID_ARGUMENT, "no \"input_ids\"");
}

TEST(Gpt2Lengths, AreThePositionsOfOneSequence) {
  for (const at::Tensor& given : {ids({2, 3}), ids({2, 4, 3})}) {
    const std::vector<nn::SequenceLength> lengths = tiny()->lengths(batch({{"input_ids", given}}));
    ASSERT_EQ(lengths.size(), 1);
    EXPECT_EQ(lengths[0].name, "");
    EXPECT_EQ(lengths[0].positions, 3);
    EXPECT_EQ(lengths[0].rows, given.numel() / 3);
  }
}

TEST(Gpt2Input, RefusesWrongShapesAndTypes) {
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3}).to(at::kFloat)}})), WEFT_INVALID_ARGUMENT,
               "input_ids", "Float", "int64");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({6})}})), WEFT_INVALID_ARGUMENT, "input_ids", "[6]");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 2, 2})}})), WEFT_INVALID_ARGUMENT, "input_ids",
               "[2, 2, 2]");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({0, 3})}})), WEFT_INVALID_ARGUMENT, "input_ids",
               "[0, 3]");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 7})}})), WEFT_INVALID_ARGUMENT, "7 positions",
               "n_positions", "6");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"labels", ids({2, 4})}})),
               WEFT_INVALID_ARGUMENT, "labels", "[2, 4]", "[2, 3]");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"attention_mask", at::ones({2, 2})}})),
               WEFT_INVALID_ARGUMENT, "attention_mask", "[2, 2]", "[2, 3]");
  EXPECT_ERROR(tiny("GPT2ForSequenceClassification")
                   ->input(batch({{"input_ids", ids({2, 3})}, {"labels", at::zeros({2, 2})}})),
               WEFT_INVALID_ARGUMENT, "labels", "[2, 2]", "[2, 3]");
}

TEST(Gpt2Input, RefusesValuesOutOfRangeNamingThem) {
  at::Tensor wrong = ids({2, 3});
  wrong[1][2] = 11;
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", wrong}})), WEFT_INVALID_ARGUMENT, "input_ids", "11",
               "[1, 2]", "0 to 10");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"labels", wrong}})), WEFT_INVALID_ARGUMENT,
               "labels", "11", "[1, 2]", "-100");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"position_ids", ids({2, 3}) + 3}})),
               WEFT_INVALID_ARGUMENT, "position_ids", "0 to 5");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"attention_mask", ids({2, 3})}})),
               WEFT_INVALID_ARGUMENT, "attention_mask", "beside 0");
  EXPECT_ERROR(
      tiny("GPT2DoubleHeadsModel")
          ->input(batch({{"input_ids", ids({1, 2, 3})}, {"mc_token_ids", at::full({1, 2}, 3, at::kLong)}})),
      WEFT_INVALID_ARGUMENT, "mc_token_ids", "0 to 2");
  EXPECT_ERROR(tiny("GPT2DoubleHeadsModel")
                   ->input(batch({{"input_ids", ids({2, 2, 3})}, {"mc_labels", at::zeros({3}, at::kLong)}})),
               WEFT_INVALID_ARGUMENT, "mc_labels", "[3]", "[2, 2]", "2 labels");
}

TEST(Gpt2Input, RefusesSeveralRowsWithoutAPaddingToken) {
  const Config config = Config::parse(kTiny, "config.json").with_json("pad_token_id", "null");
  const auto model = make_model(config, "GPT2ForSequenceClassification");
  EXPECT_ERROR(model->input(batch({{"input_ids", ids({2, 3})}})), WEFT_INVALID_ARGUMENT,
               "Cannot handle batch sizes > 1 if no padding token is defined", "pad_token_id");
  EXPECT_NO_THROW(model->input(batch({{"input_ids", ids({1, 3})}})));
}

TEST(Gpt2Input, RefusesOneSideOfAnAnswer) {
  EXPECT_ERROR(
      tiny("GPT2ForQuestionAnswering")
          ->input(batch({{"input_ids", ids({2, 3})}, {"start_positions", at::zeros({2}, at::kLong)}})),
      WEFT_INVALID_ARGUMENT, "start_positions", "end_positions");
}

TEST(Gpt2Input, TakesInt32AndAMaskOfOnes) {
  const auto model = tiny();
  bind_random(*model, 1);
  const State plain = run(*model, batch({{"input_ids", ids({2, 3})}}));
  const State same =
      run(*model,
          batch({{"input_ids", ids({2, 3}).to(at::kInt)}, {"attention_mask", at::ones({2, 3}, at::kBool)}}));
  EXPECT_TRUE(same.at("logits").equal(plain.at("logits")));
}

TEST(Gpt2Input, MaskedTokensDoNotMatter) {
  const auto model = tiny();
  bind_random(*model, 1);
  const at::Tensor mask = at::tensor({0, 1, 1, 1, 1, 0}, at::kLong).view({1, 6});
  at::Tensor first = ids({1, 6}), second = first.clone();
  second[0][0] = 7;
  second[0][5] = 3;
  const State a = run(*model, batch({{"input_ids", first}, {"attention_mask", mask}}));
  const State b = run(*model, batch({{"input_ids", second}, {"attention_mask", mask}}));
  EXPECT_TRUE(a.at("logits").slice(1, 1, 5).equal(b.at("logits").slice(1, 1, 5)));
  EXPECT_TRUE(a.at("logits").isfinite().all().item<bool>());
}

// See find_packed_sequence_indices in transformers/masking_utils.py.
TEST(Gpt2Input, SequencesOfOneRowAreApartWhenPositionsStartAgain) {
  const auto model = tiny("GPT2Model");
  bind_random(*model, 1);
  const at::Tensor positions = at::tensor({0, 1, 2, 0, 1, 2}, at::kLong).view({1, 6});
  const State packed = run(*model, batch({{"input_ids", ids({1, 6})}, {"position_ids", positions}}));
  const State apart = run(*model, batch({{"input_ids", ids({2, 3})}}));
  EXPECT_TRUE(
      is_near(packed.at("last_hidden_state").view({2, 3, 8}), apart.at("last_hidden_state"), kKernelFp32));
  // A mask, even one of ones, turns this off.
  const State whole = run(*model, batch({{"input_ids", ids({1, 6})},
                                         {"position_ids", positions},
                                         {"attention_mask", at::ones({1, 6}, at::kLong)}}));
  EXPECT_FALSE(is_near(whole.at("last_hidden_state"), packed.at("last_hidden_state"), 1e-3));
}

}  // namespace

}  // namespace weft::test
