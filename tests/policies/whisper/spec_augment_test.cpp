// SpecAugment: its spans against those of transformers (tests/oracles/speech), how they are drawn, and
// what a model does with them.
#include "spec_augment.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "policies/oracle.hpp"
#include "weft/nn/forward_context.hpp"

namespace weft::test {

namespace {

using whisper::Spans;

TEST(SpecAugment, HasTheSpansOfHuggingFace) {
  const std::string path = std::string(WEFT_ORACLES) + "/../speech/speech.json";
  const nlohmann::json oracle = parse_json(read_file(path, 1 << 20), path);
  ASSERT_GT(oracle.at("spans").size(), 15);
  for (const nlohmann::json& one : oracle.at("spans")) {
    SCOPED_TRACE(one.dump());
    const Spans spans = {one.at("share"), one.at("length"), one.at("least")};
    const int64_t positions = one.at("positions");
    const double rounding = one.at("rounding");
    const auto own = one.at("own").get<std::vector<int64_t>>();
    const auto starts = one.at("starts").get<std::vector<std::vector<int64_t>>>();
    ASSERT_EQ(own.size(), starts.size());
    for (size_t row = 0; row < own.size(); ++row)
      EXPECT_EQ(whisper::span_count(spans, positions, own[row], rounding),
                static_cast<int64_t>(starts[row].size()));
    const int64_t full = whisper::span_count(spans, positions, positions, rounding);
    const at::Tensor mask = whisper::span_mask(spans, positions, full, starts);
    for (size_t row = 0; row < own.size(); ++row) {
      const at::Tensor masked = mask[static_cast<int64_t>(row)].nonzero().flatten();
      const std::vector<int64_t> found(masked.const_data_ptr<int64_t>(),
                                       masked.const_data_ptr<int64_t>() + masked.numel());
      EXPECT_EQ(found, one.at("masked")[row].get<std::vector<int64_t>>()) << row;
    }
  }
}

// Of 2.4 spans, every batch has 2 or 3 in all rows, 3 in 40 % of the batches. Each of the 6 places of a span
// is as likely as another.
TEST(SpecAugment, DrawsEachNumberAndPlaceOfSpansAsOften) {
  const Spans spans = {1.0, 5, 0};
  const at::Generator generator = at::detail::createCPUGenerator(3);
  constexpr int64_t kBatches = 4000;
  int64_t larger = 0;
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    const at::Tensor mask = whisper::drawn_mask({0.8, 1, 0}, 3, {3, 3}, generator);
    const int64_t count = mask[0].sum().item<int64_t>();
    EXPECT_EQ(mask[1].sum().item<int64_t>(), count);
    ASSERT_TRUE(count == 2 || count == 3);
    larger += count == 3;
  }
  EXPECT_NEAR(larger, 0.4 * kBatches, 4 * std::sqrt(0.24 * kBatches));
  std::map<int64_t, int64_t> places;
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    const at::Tensor mask = whisper::drawn_mask({0.1, 5, 1}, 10, {10}, generator);
    EXPECT_EQ(mask.sum().item<int64_t>(), 5);
    ++places[mask[0].to(at::kLong).argmax().item<int64_t>()];
  }
  ASSERT_EQ(places.size(), 6);
  for (const auto& [place, count] : places)
    EXPECT_NEAR(count, kBatches / 6.0, 4 * std::sqrt(kBatches * 5 / 36.0)) << place;
  // Two spans of a row never begin at the same position.
  for (int64_t batch = 0; batch < 100; ++batch)
    EXPECT_GE(whisper::drawn_mask(spans, 10, {10}, generator).sum().item<int64_t>(), 6);
}

TEST(SpecAugment, LeavesThePaddingOfShortRows) {
  const at::Generator generator = at::detail::createCPUGenerator(5);
  for (int64_t batch = 0; batch < 200; ++batch) {
    const at::Tensor mask = whisper::drawn_mask({0.9, 4, 2}, 20, {20, 7}, generator);
    EXPECT_FALSE(mask[1].slice(0, 7).any().item<bool>());
    EXPECT_TRUE(mask[1].any().item<bool>());
  }
}

const Config kSmall = Config::parse(
    R"({"vocab_size": 11, "num_mel_bins": 6, "d_model": 8, "encoder_layers": 1, "encoder_attention_heads": 2,
        "encoder_ffn_dim": 12, "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 12,
        "max_source_positions": 15, "max_target_positions": 6, "pad_token_id": 0, "decoder_start_token_id": 1,
        "apply_spec_augment": true, "mask_time_prob": 0.4, "mask_time_length": 3, "mask_feature_prob": 0.4,
        "mask_feature_length": 2})",
    "config.json");

Batch batch(const at::Tensor& features) {
  return {{"input_features", features}, {"decoder_input_ids", at::arange(4).repeat({features.size(0), 1})}};
}

// Runs the units of a model as the host does in training, with the random numbers of a micro-batch.
at::Tensor encoded(nn::Model& model, const Batch& batch, uint64_t seed) {
  nn::ForwardContext context({}, seed);
  State state = model.input(batch);
  for (size_t index = 0; nn::Unit * unit : model.units()) {
    const nn::RunningUnit running(context, index++);
    unit->forward(state);
  }
  return state.at("encoder_last_hidden_state").detach();
}

// In training the model computes what it computes in evaluation from features with zeros in the spans.
TEST(SpecAugment, GivesTheOutputsOfFeaturesWithZerosInTheSpans) {
  const auto model = make_model(kSmall, "WhisperModel");
  bind_random(*model, 1);
  at::manual_seed(2);
  const at::Tensor features = at::randn({3, 6, 30});
  const std::vector<int64_t> own(3, 30), bins(3, 6);
  for (const uint64_t seed : {7, 8}) {
    nn::ForwardContext context({}, seed);
    nn::RunningUnit prologue(context, 0);
    const at::Generator generator = nn::drawn_generator();
    const at::Tensor time = whisper::drawn_mask({0.4, 3, 2}, 30, own, generator).unsqueeze(1);
    const at::Tensor feature = whisper::drawn_mask({0.4, 2, 0}, 6, bins, generator).unsqueeze(2);
    const at::Tensor masked = features.masked_fill(time.logical_or(feature), 0);
    model->train();
    const at::Tensor found = encoded(*model, batch(features), seed);
    model->eval();
    EXPECT_TRUE(encoded(*model, batch(masked), seed).equal(found));
    EXPECT_FALSE(encoded(*model, batch(features), seed).equal(found));
  }
}

TEST(SpecAugment, DrawsAnewForEachMicroBatchAndTheSameAgain) {
  const auto model = make_model(kSmall, "WhisperModel");
  bind_random(*model, 1);
  at::manual_seed(2);
  const Batch one = batch(at::randn({3, 6, 30}));
  const at::Tensor first = encoded(*model, one, 7);
  EXPECT_TRUE(encoded(*model, one, 7).equal(first));
  EXPECT_FALSE(encoded(*model, one, 8).equal(first));
  // Without a micro-batch the default generator decides.
  const auto output = [&] { return run(*model, one).at("encoder_last_hidden_state").detach(); };
  at::manual_seed(5);
  const at::Tensor drawn = output();
  EXPECT_FALSE(output().equal(drawn));
  at::manual_seed(5);
  EXPECT_TRUE(output().equal(drawn));
}

// The spans of a short recording lie within it.
TEST(SpecAugment, ReadsTheLengthsOfRecordings) {
  const auto model = make_model(kSmall.with_json("mask_feature_prob", "0"), "WhisperModel");
  bind_random(*model, 1);
  at::manual_seed(2);
  const at::Tensor features = at::randn({1, 6, 30});
  Batch padded = batch(features);
  padded.set("attention_mask", at::arange(30).lt(9).to(at::kLong).unsqueeze(0));
  const State state = model->input(padded);
  EXPECT_EQ(state.at("frames").item<int64_t>(), 9);
  nn::ForwardContext context({}, 3);
  nn::RunningUnit prologue(context, 0);
  const at::Generator generator = nn::drawn_generator();
  const at::Tensor time = whisper::drawn_mask({0.4, 3, 2}, 30, {9}, generator).unsqueeze(1);
  const at::Tensor found = encoded(*model, padded, 3);
  model->eval();
  EXPECT_TRUE(encoded(*model, batch(features.masked_fill(time, 0)), 3).equal(found));
}

}  // namespace

}  // namespace weft::test
