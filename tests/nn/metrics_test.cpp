// Accuracy, and the exact match and F1 of answers, against numbers counted by hand.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "models/answer_metrics.hpp"
#include "weft/nn/classifiers.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::nn {
namespace {

using at::Tensor;

TEST(Accuracy, CountsTheLargestLogitsOfLabelsThatCount) {
  const Tensor logits = at::tensor({1.0, 2.0, 0.0, 5.0, 1.0, 1.0, -1.0, -3.0, -2.0}).view({3, 3});
  const Metric all = RowLabels{at::tensor({1, 2, 0}, at::kLong)}.accuracy(logits);
  EXPECT_EQ(all.name, "accuracy");
  EXPECT_EQ(all.sum, 2);
  EXPECT_EQ(all.count, 3);
  const Metric two = RowLabels{at::tensor({1, -100, 2}, at::kLong)}.accuracy(logits);
  EXPECT_EQ(two.sum, 1);
  EXPECT_EQ(two.count, 2);
  const RowLabels narrow = {at::tensor({1, 0, -100}, at::kInt).view({1, 3})};
  const Metric positions = narrow.accuracy(logits.view({1, 3, 3}));
  EXPECT_EQ(positions.sum, 2);
  EXPECT_EQ(positions.count, 2);
  const RowLabels none = {at::full({3}, -100, at::kLong)};
  EXPECT_EQ(none.accuracy(logits).count, 0);
  EXPECT_EQ(none.count(), 0);
  // The rows whose label is the ignored class count neither as right nor as wrong.
  const Metric without_1 = RowLabels{at::tensor({1, 0, 2}, at::kLong), 1}.accuracy(logits);
  EXPECT_EQ(without_1.sum, 1);
  EXPECT_EQ(without_1.count, 2);
}

Batch labelled(const Tensor& labels) {
  Batch batch;
  batch.set("labels", labels);
  return batch;
}

TEST(Accuracy, CountsASampleIfAllItsLabelsAreRight) {
  const Tensor logits = at::tensor({1.0, -1.0, 2.0, 0.0, -1.0, 1.0}).view({3, 2});
  const ClassLabels two({2, "multi_label_classification"});
  const auto metrics = two.metrics(logits, labelled(at::tensor({1.0, 0.0, 1.0, 0.0, 1.0, 1.0}).view({3, 2})));
  ASSERT_EQ(metrics.size(), 1u);
  EXPECT_EQ(metrics[0].sum, 2);  // the last one has one label wrong
  EXPECT_EQ(metrics[0].count, 3);
  EXPECT_TRUE(ClassLabels({1, ""}).metrics(logits.narrow(1, 0, 1), labelled(at::ones({3}))).empty());
  EXPECT_TRUE(two.metrics(logits, Batch()).empty());
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
  EXPECT_EQ(metrics[0].sum, exact);
  EXPECT_DOUBLE_EQ(metrics[1].sum, f1);
  EXPECT_EQ(metrics[0].count, 1);
  EXPECT_EQ(metrics[1].count, 1);
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
  for (const Metric& metric : metrics) {
    EXPECT_EQ(metric.sum, 1);
    EXPECT_EQ(metric.count, 1);
  }
  for (const auto& labels : {std::pair(1, 6), std::pair(7, 2)})
    EXPECT_EQ(
        answer_metrics({peaks({1}), peaks({2})}, {at::tensor({labels.first}), at::tensor({labels.second})},
                       ids.narrow(0, 0, 1), Tensor())[0]
            .count,
        0);
}

}  // namespace
}  // namespace weft::nn
