// What input() refuses, and the State that it returns; losses and counts that the oracles do not cover.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

constexpr const char* kTiny =
    R"({"vocab_size": 11, "d_model": 8, "d_kv": 3, "d_ff": 12, "num_heads": 2, "num_layers": 2,
        "num_labels": 3, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12,
        "dropout_rate": 0, "pad_token_id": 9, "decoder_start_token_id": 10})";
constexpr const char* kGeneration = "T5ForConditionalGeneration";

std::shared_ptr<nn::Model> tiny(std::string_view architecture = kGeneration) {
  const auto model = make_model(Config::parse(kTiny, "config.json"), architecture);
  bind_random(*model, 1);
  return model;
}

at::Tensor ids(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape)).remainder(8).add(1).view(shape);
}

Batch batch(std::initializer_list<State::Field> fields) {
  return Batch(fields);
}

TEST(T5Input, RefusesUnknownFieldsWithTheNearest) {
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"decoder_input_id", ids({2, 3})}})),
               WEFT_INVALID_ARGUMENT, kGeneration, "did you mean \"decoder_input_ids\"?");
  EXPECT_ERROR(tiny("T5Model")->input(batch({{"input_ids", ids({2, 3})}, {"labels", ids({2, 3})}})),
               WEFT_INVALID_ARGUMENT, "T5Model", "labels", "its inputs are");
  EXPECT_ERROR(
      tiny("T5EncoderModel")->input(batch({{"input_ids", ids({2, 3})}, {"decoder_input_ids", ids({2, 3})}})),
      WEFT_INVALID_ARGUMENT, "T5EncoderModel", "decoder_input_ids");
}

TEST(T5Input, RefusesADecoderWithoutInput) {
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}})), WEFT_INVALID_ARGUMENT, "decoder_input_ids",
               "labels");
  EXPECT_ERROR(tiny("T5Model")->input(batch({{"input_ids", ids({2, 3})}})), WEFT_INVALID_ARGUMENT,
               "decoder_input_ids");
}

TEST(T5Input, RefusesWrongShapes) {
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({6})}})), WEFT_INVALID_ARGUMENT, "input_ids", "[6]");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"labels", ids({3, 4})}})),
               WEFT_INVALID_ARGUMENT, "labels", "3 samples", "input_ids 2");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"labels", ids({8})}})),
               WEFT_INVALID_ARGUMENT, "labels", "[8]");
  EXPECT_ERROR(
      tiny()->input(
          batch({{"input_ids", ids({2, 3})}, {"decoder_input_ids", ids({2, 4})}, {"labels", ids({2, 3})}})),
      WEFT_INVALID_ARGUMENT, "labels", "[2, 3]", "[2, 4]");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})},
                                    {"labels", ids({2, 4})},
                                    {"decoder_attention_mask", at::ones({2, 3})}})),
               WEFT_INVALID_ARGUMENT, "decoder_attention_mask", "[2, 3]", "[2, 4]");
}

TEST(T5Input, RefusesValuesOutOfRangeNamingThem) {
  at::Tensor wrong = ids({2, 3});
  wrong[1][2] = 11;
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", wrong}, {"labels", ids({2, 3})}})), WEFT_INVALID_ARGUMENT,
               "input_ids", "11", "[1, 2]", "0 to 10");
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"labels", wrong}})), WEFT_INVALID_ARGUMENT,
               "labels", "11", "[1, 2]", "-100");
  wrong[1][2] = -100;
  EXPECT_ERROR(tiny()->input(batch({{"input_ids", ids({2, 3})}, {"decoder_input_ids", wrong}})),
               WEFT_INVALID_ARGUMENT, "decoder_input_ids", "-100");
}

TEST(T5Input, RefusesToShiftLabelsWithoutAStartToken) {
  const Config config = Config::parse(kTiny, "config.json").with_json("decoder_start_token_id", "null");
  const auto model = make_model(config, kGeneration);
  EXPECT_ERROR(model->input(batch({{"input_ids", ids({2, 3})}, {"labels", ids({2, 3})}})),
               WEFT_INVALID_ARGUMENT, "config.json", "decoder_start_token_id", "pad_token_id");
  EXPECT_NO_THROW(model->input(batch({{"input_ids", ids({2, 3})}, {"decoder_input_ids", ids({2, 3})}})));
}

TEST(T5Input, ShiftsLabelsAndPadsWhatIsIgnored) {
  const at::Tensor labels = at::tensor({4, -100, 6, -100}, at::kInt).view({1, 4});
  const State state = tiny()->input(batch({{"input_ids", ids({1, 3})}, {"labels", labels}}));
  EXPECT_TRUE(state.at("decoder_input_ids").equal(at::tensor({10, 4, 9, 6}, at::kLong).view({1, 4})));
  EXPECT_EQ(labels[0][1].item<int>(), -100);  // the batch is not modified
}

TEST(T5Input, MaskedTokensDoNotMatter) {
  const auto model = tiny("T5Model");
  at::Tensor first = ids({1, 6}), second = first.clone();
  second[0][0] = 7;
  second[0][5] = 3;
  const at::Tensor mask = at::tensor({0, 1, 1, 1, 1, 0}, at::kLong).view({1, 6});
  const auto output = [&](const at::Tensor& source, const at::Tensor& target) {
    const State state = run(*model, batch({{"input_ids", source},
                                           {"attention_mask", mask},
                                           {"decoder_input_ids", target},
                                           {"decoder_attention_mask", mask}}));
    return state.at("last_hidden_state").slice(1, 1, 5);
  };
  EXPECT_TRUE(output(first, first).equal(output(second, first)));
  EXPECT_TRUE(output(first, first).equal(output(first, second)));
  EXPECT_TRUE(output(first, first).isfinite().all().item<bool>());
}

TEST(T5Input, ADecoderDoesNotSeeWhatComesLater) {
  const auto model = tiny("T5Model");
  at::Tensor first = ids({1, 6}), second = first.clone();
  second[0][4] = 7;
  const auto output = [&](const at::Tensor& source, const at::Tensor& target) {
    return run(*model, batch({{"input_ids", source}, {"decoder_input_ids", target}})).at("last_hidden_state");
  };
  const at::Tensor expected = output(first, first), changed = output(first, second);
  EXPECT_TRUE(changed.slice(1, 0, 4).equal(expected.slice(1, 0, 4)));
  EXPECT_FALSE(changed.slice(1, 4).equal(expected.slice(1, 4)));
  EXPECT_FALSE(output(second, first).slice(1, 0, 4).equal(expected.slice(1, 0, 4)));  // an encoder does
}

TEST(T5Input, AMaskOfOnesIsNone) {
  const auto model = tiny("T5EncoderModel");
  const State plain = run(*model, batch({{"input_ids", ids({2, 3})}}));
  const State same =
      run(*model,
          batch({{"input_ids", ids({2, 3}).to(at::kInt)}, {"attention_mask", at::ones({2, 3}, at::kBool)}}));
  EXPECT_TRUE(same.at("last_hidden_state").equal(plain.at("last_hidden_state")));
}

TEST(T5Lengths, NameTheSequenceOfEachStack) {
  const auto text = [](const nn::Model& model, const Batch& of) {
    std::string text;
    for (const nn::SequenceLength& length : model.lengths(of))
      text += fmt::format("{} of {} {};", length.rows, length.positions, length.name);
    return text;
  };
  const Batch labelled = batch({{"input_ids", ids({2, 3})}, {"labels", ids({2, 5})}});
  const Batch given =
      batch({{"input_ids", ids({2, 3})}, {"decoder_input_ids", ids({2, 4})}, {"labels", ids({2, 4})}});
  EXPECT_EQ(text(*tiny(), labelled), "2 of 3 encoder;2 of 5 decoder;");
  EXPECT_EQ(text(*tiny(), given), "2 of 3 encoder;2 of 4 decoder;");
  EXPECT_EQ(text(*tiny("T5EncoderModel"), batch({{"input_ids", ids({2, 3})}})), "2 of 3 encoder;");
}

TEST(T5Loss, CountsLabelsWhereTheyStand) {
  const Oracle oracle = Oracle::load(kGeneration);
  const auto model = make_model(oracle.config, oracle.architecture);
  const auto counts = model->counts(oracle.batch());
  ASSERT_EQ(counts.size(), 1);
  EXPECT_EQ(counts[0].count, oracle.inputs.at("labels").ne(-100).sum().item<double>());
  EXPECT_TRUE(model->counts(batch({{"input_ids", ids({2, 3})}})).empty());
}

}  // namespace

}  // namespace weft::test
