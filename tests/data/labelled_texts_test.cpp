// How texts with labels become batches.
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/text_fixture.hpp"
#include "labels/labelled_texts.hpp"
#include "labels/text_encoding.hpp"
#include "support/expect_error.hpp"

namespace weft::data {
namespace {

using testing::ElementsAre;

TEST(LongestFirst, CutsTheLongerOneFirst) {
  const auto cut = longest_first;
  EXPECT_EQ(cut(3, 4, 7), (std::pair<size_t, size_t>(3, 4)));
  EXPECT_EQ(cut(3, 9, 7), (std::pair<size_t, size_t>(3, 4)));
  EXPECT_EQ(cut(9, 3, 7), (std::pair<size_t, size_t>(4, 3)));
  EXPECT_EQ(cut(9, 9, 7), (std::pair<size_t, size_t>(3, 4)));
  EXPECT_EQ(cut(0, 9, 7), (std::pair<size_t, size_t>(0, 7)));
}

LabelledSample sample_of(std::vector<uint32_t> ids, std::vector<int64_t> classes) {
  LabelledSample sample;
  sample.sequence.ids = std::move(ids);
  sample.classes = std::move(classes);
  return sample;
}

TEST(BalancedWeights, AreOfTheLabelsThatCount) {
  const std::vector<LabelledSample> words = {sample_of({1, 2, 3}, {0, -100, 1}), sample_of({4, 5}, {0, 2})};
  EXPECT_THAT(balanced_weights(words, 3, false), ElementsAre(4.0 / 6, 4.0 / 3, 4.0 / 3));
  EXPECT_THAT(balanced_weights({sample_of({1}, {0})}, 3, false), ElementsAre(1.0 / 3, 1, 1));
  const std::vector<LabelledSample> lists = {sample_of({1}, {0, 1}), sample_of({2}, {0}), sample_of({3}, {})};
  EXPECT_THAT(balanced_weights(lists, 2, true), ElementsAre(3.0 / 4, 3.0 / 2));
}

TEST(LabelledTexts, ArePaddedToTheLongestOfTheirBatch) {
  LabelledTextOptions options;
  options.form = LabelForm::kIndicators;
  options.classes = 3;
  options.padding = 9;
  options.token_types = true;
  options.class_weights = {0.5, 1, 2};
  std::vector<LabelledSample> samples = {sample_of({1, 2}, {2}), sample_of({3}, {}),
                                         sample_of({4, 5, 6}, {0, 1})};
  samples[0].sequence.types = {0, 1};
  const LabelledTexts texts(samples, options, "a.csv");
  const Batch two = texts.get({0, 1});
  EXPECT_EQ(values(two.at("input_ids")), (Ids{1, 2, 3, 9}));
  EXPECT_EQ(values(two.at("attention_mask")), (Ids{1, 1, 1, 0}));
  EXPECT_EQ(values(two.at("token_type_ids")), (Ids{0, 1, 0, 0}));
  EXPECT_TRUE(two.at("labels").equal(at::tensor({0.f, 0.f, 1.f, 0.f, 0.f, 0.f}).view({2, 3})));
  EXPECT_TRUE(two.at("class_weights").equal(at::tensor({.5f, 1.f, 2.f, .5f, 1.f, 2.f}).view({2, 3})));
  EXPECT_EQ(texts.get({1, 2}).at("input_ids").size(1), 3);
  EXPECT_EQ(texts.sample_length(2), 3);
  EXPECT_ERROR(texts.get({3}), WEFT_OUT_OF_RANGE, "a.csv");
  options.pads_left = true;
  options.pad_to_multiple = 4;
  options.form = LabelForm::kTokens;
  samples = {sample_of({1, 2}, {7, -100}), sample_of({3}, {5})};
  const Batch left = LabelledTexts(samples, options, "").get({1, 0});
  EXPECT_EQ(values(left.at("input_ids")), (Ids{9, 9, 9, 3, 9, 9, 1, 2}));
  EXPECT_EQ(values(left.at("attention_mask")), (Ids{0, 0, 0, 1, 0, 0, 1, 1}));
  EXPECT_EQ(values(left.at("labels")), (Ids{-100, -100, -100, 5, -100, -100, 7, -100}));
  EXPECT_FALSE(left.has("position_ids"));
  options.positions = true;
  EXPECT_EQ(values(LabelledTexts(samples, options, "").get({0}).at("position_ids")), (Ids{0, 0, 0, 1}));
}

std::shared_ptr<LabelledTexts> texts_of(const std::vector<int64_t>& lengths) {
  std::vector<LabelledSample> samples;
  for (size_t i = 0; i < lengths.size(); ++i)
    samples.push_back(
        sample_of(std::vector<uint32_t>(static_cast<size_t>(lengths[i]), static_cast<uint32_t>(i)), {0}));
  LabelledTextOptions options;
  options.form = LabelForm::kClass;
  options.padding = 99999;
  return std::make_shared<LabelledTexts>(std::move(samples), options, "");
}

std::vector<int64_t> first_ids(const Batch& batch) {
  return values(batch.at("input_ids").select(1, 0));
}

TEST(LabelledTexts, ComeInBatchesOfSimilarLength) {
  std::vector<int64_t> lengths(403);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = 1 + static_cast<int64_t>(i * i % 97);
  const auto texts = texts_of(lengths);
  LoaderOptions options;
  options.batch_size = 8;
  options.shuffle = true;
  options.seed = 5;
  const auto read = [&](Loader loader, int64_t epochs) {
    std::vector<std::vector<int64_t>> batches;
    for (int64_t epoch = 0; epoch < epochs; ++epoch)
      for (const Batch& batch : loader) batches.push_back(first_ids(batch));
    return batches;
  };
  const auto batches = read(Loader(texts, options), 2);
  ASSERT_EQ(batches.size(), 2 * 51u);
  int64_t padded = 0, all = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  for (size_t epoch = 0; epoch < 2; ++epoch) {
    std::set<int64_t> seen;
    for (size_t b = 0; b < 51; ++b) {
      const std::vector<int64_t>& batch = batches[epoch * 51 + b];
      EXPECT_EQ(batch.size(), b == 50 ? 3u : 8u);
      int64_t longest = 0;
      for (const int64_t id : batch) longest = std::max(longest, lengths[static_cast<size_t>(id)]);
      padded += longest * static_cast<int64_t>(batch.size());
      seen.insert(batch.begin(), batch.end());
    }
    EXPECT_EQ(seen.size(), lengths.size());
  }
  EXPECT_LT(static_cast<double>(padded), 1.15 * 2 * static_cast<double>(all));
  EXPECT_NE(batches[0], batches[51]);
  // The lengths of the batches rise in no order.
  std::vector<int64_t> of_batches;
  for (size_t b = 0; b < 50; ++b) of_batches.push_back(lengths[static_cast<size_t>(batches[b][0])]);
  EXPECT_FALSE(std::is_sorted(of_batches.begin(), of_batches.end()));
  // As many batches on several ranks, and after a resume.
  options.ranks = 4;
  std::vector<std::vector<int64_t>> joined(51);
  for (options.rank = 0; options.rank < 4; ++options.rank) {
    Loader loader(texts, options);
    Batch batch;
    for (size_t b = 0; loader.next(batch); ++b)
      if (!batch.empty)
        for (const int64_t id : first_ids(batch)) joined[b].push_back(id);
  }
  for (size_t b = 0; b < 51; ++b) EXPECT_EQ(joined[b], batches[b]);
  options.rank = 0;
  options.ranks = 1;
  Loader resumed(texts, options);
  resumed.seek({1, 20});
  EXPECT_EQ(read(resumed, 1), std::vector(batches.begin() + 71, batches.end()));
}

}  // namespace
}  // namespace weft::data
