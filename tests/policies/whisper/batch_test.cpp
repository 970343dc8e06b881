// What input() refuses, and the State that it returns; losses and counts that the oracles do not cover.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::test {

namespace {

constexpr const char* kWhisperGeneration = "WhisperForConditionalGeneration";
constexpr const char* kWhisperClassifier = "WhisperForAudioClassification";

const Config kTiny = Config::parse(
    R"({"vocab_size": 11, "num_mel_bins": 3, "d_model": 8, "encoder_layers": 1, "encoder_attention_heads": 2,
        "encoder_ffn_dim": 12, "decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 10,
        "max_source_positions": 5, "max_target_positions": 6, "pad_token_id": 9, "decoder_start_token_id": 10,
        "num_labels": 3, "classifier_proj_size": 4})",
    "config.json");

std::shared_ptr<nn::Model> tiny(std::string_view architecture = kWhisperGeneration,
                                const Config& config = kTiny) {
  const auto model = make_model(config, architecture);
  bind_random(*model, 1);
  return model;
}

at::Tensor features(int64_t samples, int64_t bins = 3, int64_t frames = 10) {
  return at::arange(samples * bins * frames).remainder(17).div(8).sub(1).view({samples, bins, frames});
}

at::Tensor ids(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape)).remainder(8).add(1).view(shape);
}

Batch batch(std::initializer_list<State::Field> fields) {
  return Batch(fields);
}

TEST(WhisperInput, RefusesUnknownFieldsWithTheNearest) {
  EXPECT_ERROR(tiny()->input(batch({{"input_feature", features(2)}, {"labels", ids({2, 3})}})),
               WEFT_INVALID_ARGUMENT, kWhisperGeneration, "did you mean \"input_features\"?");
  EXPECT_ERROR(tiny()->input(batch({{"input_features", features(2)}, {"input_ids", ids({2, 3})}})),
               WEFT_INVALID_ARGUMENT, "no input \"input_ids\"");
  EXPECT_ERROR(tiny("WhisperModel")->input(batch({{"input_features", features(2)}, {"labels", ids({2, 3})}})),
               WEFT_INVALID_ARGUMENT, "WhisperModel", "no input \"labels\"");
  for (const char* field : {"decoder_input_ids", "attention_mask", "decoder_position_ids"})
    EXPECT_ERROR(
        tiny(kWhisperClassifier)->input(batch({{"input_features", features(2)}, {field, ids({2, 10})}})),
        WEFT_INVALID_ARGUMENT, kWhisperClassifier, field);
  EXPECT_ERROR(tiny()->input(batch({{"labels", ids({2, 3})}})), WEFT_INVALID_ARGUMENT,
               "the batch has no \"input_features\"");
}

TEST(WhisperInput, RefusesWrongFeatures) {
  const auto expect_refusal = [](const at::Tensor& wrong, auto... parts) {
    EXPECT_ERROR(tiny(kWhisperClassifier)->input(batch({{"input_features", wrong}})), WEFT_INVALID_ARGUMENT,
                 "input_features", parts...);
  };
  expect_refusal(at::zeros({2, 3, 10}, at::kLong), "floating point");
  expect_refusal(features(2, 3, 9), "[2, 3, 9]", "[2, 3, 10]");
  expect_refusal(features(2, 4), "[2, 4, 10]", "[2, 3, 10]");
  expect_refusal(at::zeros({3, 10}), "[3, 10]");
  expect_refusal(at::zeros({0, 3, 10}), "no samples");
}

TEST(WhisperInput, RefusesADecoderWithoutInput) {
  EXPECT_ERROR(tiny()->input(batch({{"input_features", features(2)}})), WEFT_INVALID_ARGUMENT,
               "decoder_input_ids", "labels");
  EXPECT_ERROR(tiny("WhisperModel")->input(batch({{"input_features", features(2)}})), WEFT_INVALID_ARGUMENT,
               "decoder_input_ids");
}

TEST(WhisperInput, RefusesWrongTokens) {
  const auto expect_refusal = [](std::initializer_list<State::Field> fields, auto... parts) {
    Batch of = batch({{"input_features", features(2)}});
    for (const auto& [name, tensor] : fields) of.set(name, tensor);
    EXPECT_ERROR(tiny()->input(of), WEFT_INVALID_ARGUMENT, parts...);
  };
  expect_refusal({{"labels", ids({3, 4})}}, "labels", "3 samples", "input_features 2");
  expect_refusal({{"labels", ids({2, 7})}}, "labels", "7 positions", "max_target_positions", "6");
  expect_refusal({{"decoder_input_ids", ids({2, 7})}}, "decoder_input_ids", "max_target_positions");
  expect_refusal({{"decoder_input_ids", ids({2, 4})}, {"labels", ids({2, 3})}}, "labels", "[2, 3]", "[2, 4]");
  expect_refusal({{"labels", ids({2, 4})}, {"decoder_attention_mask", at::ones({2, 3})}},
                 "decoder_attention_mask", "[2, 3]", "[2, 4]");
  expect_refusal({{"labels", ids({2, 4})}, {"decoder_position_ids", ids({2, 3})}}, "decoder_position_ids",
                 "[2, 3]");
  expect_refusal({{"labels", ids({2, 4})}, {"decoder_position_ids", at::full({1, 4}, 6, at::kLong)}},
                 "decoder_position_ids", "6", "0 to 5");
  expect_refusal({{"labels", at::full({2, 4}, 11, at::kLong)}}, "labels", "11", "0 to 10");
  expect_refusal({{"labels", ids({2, 4})}, {"attention_mask", at::ones({2, 5})}}, "attention_mask", "[2, 5]",
                 "[2, 10]");
  expect_refusal({{"labels", ids({2, 4})}, {"attention_mask", at::full({2, 10}, 2)}}, "attention_mask", "0",
                 "1");
}

TEST(WhisperInput, RefusesToShiftLabelsWithoutAStartOrAPaddingToken) {
  const Batch labelled = batch({{"input_features", features(2)}, {"labels", ids({2, 3})}});
  const Batch given = batch({{"input_features", features(2)}, {"decoder_input_ids", ids({2, 3})}});
  for (const char* key : {"decoder_start_token_id", "pad_token_id"}) {
    const auto model = make_model(kTiny.with_json(key, "null"), kWhisperGeneration);
    EXPECT_ERROR(model->input(labelled), WEFT_INVALID_ARGUMENT, "config.json", key, "decoder_input_ids");
    EXPECT_NO_THROW(model->input(given));
  }
}

TEST(WhisperInput, ShiftsLabelsAndPadsWhatIsIgnored) {
  const at::Tensor labels = at::tensor({4, -100, 6, -100}, at::kInt).view({1, 4});
  const State state = tiny()->input(batch({{"input_features", features(1)}, {"labels", labels}}));
  EXPECT_TRUE(state.at("decoder_input_ids").equal(at::tensor({10, 4, 9, 6}, at::kLong).view({1, 4})));
  EXPECT_EQ(labels[0][1].item<int>(), -100);  // the batch is not modified
}

TEST(WhisperInput, MaskedTokensDoNotMatter) {
  const auto model = tiny("WhisperModel");
  at::Tensor first = ids({1, 6}), second = first.clone();
  second[0][0] = 7;
  second[0][5] = 3;
  const at::Tensor mask = at::tensor({0, 1, 1, 1, 1, 0}, at::kLong).view({1, 6});
  const auto output = [&](const at::Tensor& target) {
    const State state = run(*model, batch({{"input_features", features(1)},
                                           {"decoder_input_ids", target},
                                           {"decoder_attention_mask", mask}}));
    return state.at("last_hidden_state").slice(1, 1, 5);
  };
  EXPECT_TRUE(output(first).equal(output(second)));
  EXPECT_TRUE(output(first).isfinite().all().item<bool>());
}

// To frames nothing attends by their mask, as in Hugging Face.
TEST(WhisperInput, AMaskOfFramesDoesNotMatter) {
  const auto model = tiny();
  Batch of = batch({{"input_features", features(2)}, {"labels", ids({2, 3})}});
  const at::Tensor expected = run(*model, of).at("logits");
  of.set("attention_mask", at::arange(20).remainder(3).ne(0).view({2, 10}));
  EXPECT_TRUE(run(*model, of).at("logits").equal(expected));
  EXPECT_FALSE(model->input(of).has("attention_mask"));
}

TEST(WhisperInput, ADecoderDoesNotSeeWhatComesLater) {
  const auto model = tiny("WhisperModel");
  at::Tensor first = ids({1, 6}), second = first.clone();
  second[0][4] = 7;
  const at::Tensor sound = features(1), other = sound + 0.5 * at::arange(10).ge(8);
  const auto output = [&](const at::Tensor& source, const at::Tensor& target) {
    return run(*model, batch({{"input_features", source}, {"decoder_input_ids", target}}))
        .at("last_hidden_state");
  };
  const at::Tensor expected = output(sound, first), changed = output(sound, second);
  EXPECT_TRUE(changed.slice(1, 0, 4).equal(expected.slice(1, 0, 4)));
  EXPECT_FALSE(changed.slice(1, 4).equal(expected.slice(1, 4)));
  EXPECT_FALSE(output(other, first).slice(1, 0, 4).equal(expected.slice(1, 0, 4)));  // an encoder does
}

// Positions count from 0 unless they are given. Those that restart mark documents.
TEST(WhisperInput, TakesPositionsOfTheDecoder) {
  const at::Tensor target = ids({2, 5}), restart = at::tensor({0, 1, 2, 0, 1}, at::kLong).view({1, 5});
  const auto model = tiny("WhisperModel");
  const auto output = [&](const at::Tensor& tokens, const at::Tensor& positions) {
    Batch of = batch({{"input_features", features(2)}, {"decoder_input_ids", tokens}});
    if (positions.defined()) of.set("decoder_position_ids", positions);
    return run(*model, of).at("last_hidden_state");
  };
  const at::Tensor expected = output(target, {});
  EXPECT_TRUE(output(target, at::arange(5).unsqueeze(0)).equal(expected));
  EXPECT_TRUE(output(target, at::arange(5).repeat({2, 1})).equal(expected));
  const at::Tensor packed = output(target, restart);
  EXPECT_TRUE(is_near(packed.slice(1, 0, 3), expected.slice(1, 0, 3), 1e-6));
  EXPECT_TRUE(is_near(packed.slice(1, 3), output(target.slice(1, 3), {}), 1e-6));
  EXPECT_FALSE(is_near(packed.slice(1, 3), expected.slice(1, 3), 1e-3));
}

TEST(WhisperLengths, NameTheSequenceOfEachStack) {
  const auto text = [](const nn::Model& model, const Batch& of) {
    std::string text;
    for (const nn::SequenceLength& length : model.lengths(of))
      text += fmt::format("{} of {} {};", length.rows, length.positions, length.name);
    return text;
  };
  EXPECT_EQ(text(*tiny(), batch({{"input_features", features(2)}, {"labels", ids({2, 4})}})),
            "2 of 5 encoder;2 of 4 decoder;");
  EXPECT_EQ(text(*tiny(kWhisperClassifier), batch({{"input_features", features(3)}})), "3 of 5 encoder;");
}

// A text alone is no input, so the commands for text refuse the model.
TEST(WhisperModel, IsNoModelOfTokens) {
  EXPECT_EQ(nn::find_token_model(*tiny()), nullptr);
}

TEST(WhisperLoss, CountsLabelsWhereTheyStand) {
  const Oracle oracle = Oracle::load(kWhisperGeneration);
  const auto model = make_model(oracle.config, oracle.architecture);
  const auto counts = model->counts(oracle.batch());
  ASSERT_EQ(counts.size(), 1);
  EXPECT_EQ(counts[0].count, oracle.inputs.at("labels").ne(-100).sum().item<double>());
  EXPECT_TRUE(
      model->counts(batch({{"input_features", features(2)}, {"decoder_input_ids", ids({2, 3})}})).empty());
}

// Hugging Face's class knows no other loss.
TEST(WhisperLoss, IsTheCrossEntropyOfOneLabelForAClassifier) {
  const auto model = tiny(kWhisperClassifier);
  const auto expect_refusal = [&](const at::Tensor& labels, auto... parts) {
    EXPECT_ERROR(model->input(batch({{"input_features", features(2)}, {"labels", labels}})),
                 WEFT_INVALID_ARGUMENT, "labels", parts...);
  };
  expect_refusal(at::zeros({2}), "int64");
  expect_refusal(at::zeros({2, 3}, at::kLong), "[2, 3]");
  expect_refusal(at::full({2}, 3, at::kLong), "3", "0 to 2");
  const Batch of = batch({{"input_features", features(2)}, {"labels", at::tensor({2, -100}, at::kLong)}});
  const State last = run(*model, of);
  EXPECT_EQ(model->counts(of)[0].count, 1);
  EXPECT_TRUE(is_near(total_loss(*model, last, of).detach(),
                      -last.at("logits").detach().log_softmax(-1)[0][2], 1e-6));
}

}  // namespace

}  // namespace weft::test
