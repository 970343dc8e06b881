// Metrics of classes, numbers, tags and answers, against numbers of other libraries or counted by hand.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/answer_metrics.hpp"
#include "models/tags.hpp"
#include "weft/nn/classifiers.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::nn {
namespace {

using at::Tensor;

using Sums = std::vector<double>;

TEST(Accuracy, CountsTheLargestLogitsOfLabelsThatCount) {
  const Tensor logits = at::tensor({1.0, 2.0, 0.0, 5.0, 1.0, 1.0, -1.0, -3.0, -2.0}).view({3, 3});
  const Metric all = RowLabels{at::tensor({1, 2, 0}, at::kLong)}.accuracy(logits);
  EXPECT_EQ(all.name, "accuracy");
  EXPECT_EQ(all.sums, (Sums{2, 3}));
  EXPECT_EQ(RowLabels{at::tensor({1, -100, 2}, at::kLong)}.accuracy(logits).sums, (Sums{1, 2}));
  const RowLabels narrow = {at::tensor({1, 0, -100}, at::kInt).view({1, 3})};
  EXPECT_EQ(narrow.accuracy(logits.view({1, 3, 3})).sums, (Sums{2, 2}));
  const RowLabels none = {at::full({3}, -100, at::kLong)};
  EXPECT_EQ(none.accuracy(logits).sums, (Sums{0, 0}));
  EXPECT_EQ(none.count(), 0);
  // The rows whose label is the ignored class count neither as right nor as wrong.
  EXPECT_EQ((RowLabels{at::tensor({1, 0, 2}, at::kLong), 1}.accuracy(logits).sums), (Sums{1, 2}));
}

Batch labelled(const Tensor& labels) {
  Batch batch;
  batch.set("labels", labels);
  return batch;
}

// Returns the measures by name.
std::map<std::string, double> measured(const Metric& metric) {
  std::map<std::string, double> values;
  for (const Measure& measure : metric.measures()) values[measure.name] = measure.value;
  return values;
}

// Returns logits whose largest ones are those of `predicted`.
Tensor logits_of(const std::vector<int64_t>& predicted, int64_t classes) {
  return at::one_hot(at::tensor(predicted, at::kLong), classes).to(at::kFloat);
}

// The numbers are those of scikit-learn 1.7: accuracy_score, f1_score and matthews_corrcoef.
TEST(Metrics, OfClassesAreThoseOfScikitLearn) {
  const ClassLabels labels({5, ""});
  const Tensor wanted = at::tensor({0, 1, 2, 2, 1, 0, 4, 2, 1, 2}, at::kLong);
  const Tensor found = logits_of({0, 2, 2, 2, 1, 1, 2, 0, 1, 2}, 5);
  const auto of = [&](const Tensor& logits, const Tensor& truth) {
    const auto metrics = labels.metrics(logits, labelled(truth));
    EXPECT_EQ(metrics.size(), 1u);
    return metrics.at(0);
  };
  Metric whole = of(found, wanted);
  const auto values = measured(whole);
  EXPECT_EQ(values.size(), 4u);
  EXPECT_NEAR(values.at("accuracy"), 0.6, 1e-12);
  EXPECT_NEAR(values.at("f1_macro"), 0.45833333333333326, 1e-12);
  EXPECT_NEAR(values.at("f1_micro"), 0.6, 1e-12);
  EXPECT_NEAR(values.at("matthews"), 0.4098442999852685, 1e-12);
  // They add up over batches, and labels that do not count have no part in them.
  Metric parts = of(found.narrow(0, 0, 3), wanted.narrow(0, 0, 3));
  parts += of(at::cat({found.narrow(0, 3, 7), found.narrow(0, 0, 1)}),
              at::cat({wanted.narrow(0, 3, 7), at::tensor({-100}, at::kLong)}));
  EXPECT_EQ(parts.sums, whole.sums);
  const auto constant = measured(of(logits_of(std::vector<int64_t>(10, 1), 5), wanted));
  EXPECT_EQ(constant.at("matthews"), 0);
  EXPECT_NEAR(constant.at("f1_macro"), 0.11538461538461539, 1e-12);
  whole.clear();
  for (const auto& [name, value] : measured(whole)) EXPECT_TRUE(std::isnan(value)) << name;
  EXPECT_ANY_THROW(whole += Metric("classes", Metric::Kind::kClasses, Sums(3)));
}

TEST(Metrics, OfSeveralLabelsAreThoseOfScikitLearn) {
  const ClassLabels four({4, "multi_label_classification"});
  const Tensor wanted =
      at::tensor({1., 0., 1., 0., 0., 1., 0., 0., 1., 1., 0., 0., 0., 0., 0., 0.}).view({4, 4});
  const Tensor found =
      at::tensor({1., 0., 0., 0., 0., 1., 0., 0., 1., 0., 1., 0., 0., 0., 0., 0.}).view({4, 4});
  const auto metrics = four.metrics(found * 3 - 1, labelled(wanted));
  ASSERT_EQ(metrics.size(), 1u);
  const auto values = measured(metrics[0]);
  EXPECT_EQ(values.size(), 3u);
  EXPECT_NEAR(values.at("accuracy"), 0.5, 1e-12);
  EXPECT_NEAR(values.at("f1_macro"), 0.41666666666666663, 1e-12);
  EXPECT_NEAR(values.at("f1_micro"), 0.6666666666666666, 1e-12);
  EXPECT_EQ(metrics[0].measures()[0].count, 4);
  EXPECT_TRUE(four.metrics(found, Batch()).empty());
}

// The numbers are those of SciPy 1.16: pearsonr and spearmanr, where equal values share their ranks.
TEST(Metrics, OfARegressionAreThoseOfSciPy) {
  const ClassLabels one({1, ""});
  const Tensor labels = at::tensor({1.0, 2.0, 2.0, 4.5, -1.0, 3.0}),
               found = at::tensor({0.5, 2.5, 1., 4., 4., 2.5});
  Metric metric = one.metrics(found.narrow(0, 0, 4).view({4, 1}), labelled(labels.narrow(0, 0, 4))).at(0);
  metric +=
      one.metrics(found.narrow(0, 4, 2).view({2, 1}), labelled(labels.narrow(0, 4, 2).view({2, 1}))).at(0);
  auto values = measured(metric);
  EXPECT_NEAR(values.at("mse"), 4.5, 1e-12);
  EXPECT_NEAR(values.at("pearson"), 0.08901360916783907, 1e-12);
  EXPECT_NEAR(values.at("spearman"), 0.2239055377599495, 1e-12);
  // Predictions that are all the same correlate with nothing.
  values = measured(one.metrics(at::full({6, 1}, 0.5), labelled(labels)).at(0));
  EXPECT_TRUE(std::isnan(values.at("pearson")));
  EXPECT_TRUE(std::isnan(values.at("spearman")));
  EXPECT_FALSE(std::isnan(values.at("mse")));
  const auto several =
      ClassLabels({3, "regression"}).metrics(found.view({2, 3}), labelled(labels.view({2, 3})));
  EXPECT_EQ(measured(several.at(0)), (std::map<std::string, double>{{"mse", 4.5}}));
}

// The number is that of seqeval 1.2.2: f1_score without a mode.
TEST(Metrics, OfTagsAreThoseOfSeqeval) {
  const Tags tags({"O", "B-X", "I-X", "B-Y", "I-Y"});
  ASSERT_TRUE(tags.name_entities());
  const Tensor wanted = at::tensor({1, 2, 0, 4, 4, 3, 0, 1, 4, -100, 4, 0}, at::kLong).view({2, 6});
  const Tensor found = at::tensor({1, 2, 0, 3, 4, 4, 2, 1, 4, 3, 4, 2}, at::kLong).view({2, 6});
  const Metric metric = tags.entities(found, wanted);
  EXPECT_EQ(metric.sums, (Sums{3, 6, 5}));
  EXPECT_NEAR(measured(metric).at("entity_f1"), 0.5454545454545454, 1e-12);
  EXPECT_FALSE(Tags({"O", "noun"}).name_entities());
  EXPECT_FALSE(Tags({"O"}).name_entities());
  EXPECT_FALSE(Tags({}).name_entities());
}

TEST(ClassWeights, MultiplyTheLossOfALabelAndCountAsMuch) {
  const Tensor logits = at::randn({4, 3}, at::kDouble), labels = at::tensor({2, 0, -100, 1}, at::kLong);
  const Tensor weights = at::tensor({0.5, 2.0, 0.25});
  Batch batch = labelled(labels);
  batch.set("class_weights", weights.repeat({4, 1}).to(at::kFloat));
  const ClassLabels three({3, ""});
  const double count = three.counts(batch).at(0).count;
  EXPECT_NEAR(count, 0.25 + 0.5 + 2, 1e-6);
  EXPECT_NEAR(three.loss(logits, batch).at(0).sum.item<double>() / count,
              at::cross_entropy_loss(logits, labels, weights.to(at::kDouble)).item<double>(), 1e-6);
  // Of tokens, of which each sample has several.
  Batch tokens = labelled(labels.view({2, 2}));
  tokens.set("class_weights", weights.repeat({2, 1}).to(at::kFloat));
  const RowLabels rows = {tokens.at("labels"), kIgnored, tokens.at("class_weights")};
  EXPECT_EQ(rows.count(), count);
  EXPECT_NEAR(rows.cross_entropy(logits.view({2, 2, 3})).item<double>(),
              three.loss(logits, batch).at(0).sum.item<double>(), 1e-6);
  // Of several labels those that a sample has.
  const Tensor indicators = at::tensor({1., 0., 1., 0., 0., 0., 1., 1., 1., 0., 1., 0.}).view({4, 3});
  batch.set("labels", indicators);
  const ClassLabels several({3, "multi_label_classification"});
  EXPECT_EQ(several.counts(batch).at(0).count, 12);
  EXPECT_NEAR(
      several.loss(logits, batch).at(0).sum.item<double>() / 12,
      at::binary_cross_entropy_with_logits(logits, indicators.to(at::kDouble), {}, weights.to(at::kDouble))
          .item<double>(),
      1e-6);
}

// Logits that are 1 at one position and 0 elsewhere.
Tensor peaks(const std::vector<int64_t>& places, int64_t positions = 6) {
  return at::one_hot(at::tensor(places, at::kLong), positions).to(at::kFloat);
}

void expect_answer(const Tensor& begins, const Tensor& ends, std::pair<int64_t, int64_t> labels,
                   const std::vector<int64_t>& ids, double exact, double f1, const Tensor& mask = {}) {
  const auto metrics =
      answer_metrics({begins, ends}, {at::tensor({labels.first}), at::tensor({labels.second}).view({1, 1})},
                     at::tensor(ids, at::kLong).unsqueeze(0), mask);
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[0].name, "exact_match");
  EXPECT_EQ(metrics[1].name, "f1");
  EXPECT_EQ(metrics[0].sums, (Sums{exact, 1}));
  EXPECT_DOUBLE_EQ(metrics[1].sums[0], f1);
  EXPECT_EQ(metrics[1].sums[1], 1);
}

TEST(Answers, AreComparedByTheirIds) {
  const std::vector<int64_t> ids = {9, 5, 6, 5, 6, 7};
  expect_answer(peaks({1}), peaks({2}), {1, 2}, ids, 1, 1);
  expect_answer(peaks({3}), peaks({4}), {1, 2}, ids, 1, 1);  // the same ids elsewhere
  // 5 6 5 6 against 5 6: precision 2/4, recall 1.
  expect_answer(peaks({1}), peaks({4}), {1, 2}, ids, 0, 2 * 0.5 / 1.5);
  // 6 5 6 against 6 7: one common id, precision 1/3, recall 1/2.
  expect_answer(peaks({2}), peaks({4}), {4, 5}, ids, 0, 2 * (1.0 / 3) * 0.5 / (1.0 / 3 + 0.5));
  // 6 5 against 5 6: all ids are common, in another order.
  expect_answer(peaks({2}), peaks({3}), {1, 2}, ids, 0, 1);
  expect_answer(peaks({0}), peaks({0}), {5, 5}, ids, 0, 0);
  expect_answer(peaks({0}), peaks({0}), {-1, -1}, ids, 1, 1);  // a negative label is position 0
}

TEST(Answers, EndWhereTheyBeginOrLaterAndHaveNoPadding) {
  const std::vector<int64_t> ids = {1, 2, 3, 4, 5, 6};
  Tensor begins = at::tensor({0.0, 0.0, 0.5, 0.0, 3.0, 0.0}).unsqueeze(0),
         ends = at::tensor({0.0, 0.0, 0.0, 2.9, 0.2, 0.0}).unsqueeze(0);
  // The largest logits are at 4 and 3. Of the spans that do not end before they begin, [2, 3] has 3.4 and
  // [4, 4] has 3.2.
  expect_answer(begins, ends, {2, 3}, ids, 1, 1);
  begins[0][2] = 0.2;  // 3.1 now
  expect_answer(begins, ends, {4, 4}, ids, 1, 1);
  const Tensor mask = at::tensor({1, 1, 1, 1, 0, 0}, at::kLong).view({1, 6});
  expect_answer(begins, ends, {2, 3}, ids, 1, 1, mask);
}

TEST(Answers, HaveLabelsThatTheLossIgnoresToo) {
  const RowLabels labels = answer_labels(at::tensor({-3, 0, 5, 6, 90}, at::kInt).view({5, 1}), 6);
  EXPECT_TRUE(labels.labels.equal(at::tensor({0, 0, 5, 6, 6}, at::kLong)));
  EXPECT_EQ(labels.ignored, 6);
  EXPECT_EQ(labels.count(), 3);
}

TEST(Answers, LeaveOutLabelsBehindTheSequence) {
  const Tensor ids = at::arange(12).view({2, 6});
  const auto metrics =
      answer_metrics({peaks({1, 1}), peaks({2, 2})}, {at::tensor({6, 1}), at::tensor({6, 2})}, ids, Tensor());
  for (const Metric& metric : metrics) EXPECT_EQ(metric.sums, (Sums{1, 1}));
  for (const auto& labels : {std::pair(1, 6), std::pair(7, 2)})
    EXPECT_EQ(
        answer_metrics({peaks({1}), peaks({2})}, {at::tensor({labels.first}), at::tensor({labels.second})},
                       ids.narrow(0, 0, 1), Tensor())[0]
            .sums[1],
        0);
}

}  // namespace
}  // namespace weft::nn
