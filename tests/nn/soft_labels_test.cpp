// The cross entropy of labels with probabilities, and branches that are left out at random.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "weft/nn/classifiers.hpp"
#include "weft/nn/drop_path.hpp"
#include "weft/nn/forward_context.hpp"

namespace weft::nn {
namespace {

constexpr int64_t kRows = 6, kClasses = 4;

class SoftLabels : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(2);
    logits_ = at::randn({kRows, kClasses}, at::kDouble).set_requires_grad(true);
    labels_ = at::tensor({0, 3, 2, 1, 1, 2}, at::kLong);
    other_ = at::tensor({1, 3, 0, 2, 0, 1}, at::kLong);
    share_ = at::tensor({0.5, 0.9, 1.0, 0.7, 0.6, 0.8}, at::kDouble).unsqueeze(1);
  }
  static at::Tensor one_hot(const at::Tensor& labels) {
    return at::one_hot(labels, kClasses).to(at::kDouble);
  }
  Batch batch() const {
    return {{"labels", labels_},
            {"label_probabilities", one_hot(labels_) * share_ + one_hot(other_) * (1 - share_)}};
  }
  struct Result {
    at::Tensor loss, gradient;
    double count;
  };
  Result run(const Batch& batch) {
    logits_.mutable_grad().reset();
    const at::Tensor loss = labelled_.loss(logits_, batch).at(0).sum;
    loss.backward();
    return {loss.detach(), logits_.grad().clone(), labelled_.counts(batch).at(0).count};
  }

  const ClassLabels labelled_{{kClasses, ""}};
  at::Tensor logits_, labels_, other_, share_;
};

TEST_F(SoftLabels, AreRefusedWhereASampleHasNoOneClass) {
  const Batch soft = batch();
  EXPECT_ERROR(ClassLabels({kClasses, "multi_label_classification"}).check(BatchFields(soft, "A"), kRows),
               WEFT_INVALID_ARGUMENT, "label_probabilities", "problem_type");
  Batch narrow = soft;
  narrow.set("label_probabilities", at::ones({kRows, kClasses - 1}));
  EXPECT_ERROR(labelled_.check(BatchFields(narrow, "A"), kRows), WEFT_INVALID_ARGUMENT, "[6, 4]");
  labelled_.check(BatchFields(soft, "A"), kRows);
}

TEST_F(SoftLabels, HaveTheMixedLossOfBothLabels) {
  const Result found = run(batch());
  const at::Tensor losses = -logits_.detach()
                                 .log_softmax(-1)
                                 .mul(one_hot(labels_) * share_ + one_hot(other_) * (1 - share_))
                                 .sum(-1);
  EXPECT_NEAR(found.loss.item<double>(), losses.sum().item<double>(), 1e-12);
  EXPECT_EQ(found.count, kRows);
  // The gradient is softmax - probabilities.
  const at::Tensor wanted = logits_.detach().softmax(-1) - batch().at("label_probabilities");
  EXPECT_TRUE(at::allclose(found.gradient, wanted, 1e-10, 1e-12));
}

TEST_F(SoftLabels, OfOneClassAreThatLabel) {
  Batch hard = {{"labels", labels_}}, soft = hard;
  soft.set("label_probabilities", one_hot(labels_).to(at::kFloat));
  hard.at("labels")[2] = kIgnored;  // both share the tensor
  const Result wanted = run(hard), found = run(soft);
  EXPECT_NEAR(found.loss.item<double>(), wanted.loss.item<double>(), 1e-12);
  EXPECT_TRUE(at::allclose(found.gradient, wanted.gradient, 1e-10, 1e-12));
  EXPECT_EQ(found.count, kRows - 1);
  const at::Tensor weights = at::tensor({0.5, 1.0, 2.0, 4.0}, at::kDouble).expand({kRows, kClasses});
  hard.set("class_weights", weights);
  soft.set("class_weights", weights);
  EXPECT_NEAR(run(soft).loss.item<double>(), run(hard).loss.item<double>(), 1e-12);
  EXPECT_NEAR(run(soft).count, run(hard).count, 1e-12);
}

// As labels are smoothed: the same loss as that of the label alone.
TEST_F(SoftLabels, AreSmoothedInTheForwardsOfATraining) {
  ForwardContext context;
  context.smooth_labels(0.2);
  const RunningUnit running(context, 0);
  Batch hard = {{"labels", labels_}}, soft = hard;
  soft.set("label_probabilities", one_hot(labels_));
  const Result wanted = run(hard), found = run(soft);
  EXPECT_NEAR(found.loss.item<double>(), wanted.loss.item<double>(), 1e-9);
  EXPECT_TRUE(at::allclose(found.gradient, wanted.gradient, 1e-8, 1e-10));
  EXPECT_FALSE(context.ignores_smoothing());
}

TEST(DropPath, LeavesOutWholeSamplesInTraining) {
  DropPath layer(0.25);
  const at::Tensor x = at::rand({400, 3, 2}) + 0.5;
  layer.eval();
  EXPECT_TRUE(layer(x).is_same(x));
  layer.train();
  at::manual_seed(1);
  const at::Tensor y = layer(x);
  at::manual_seed(1);
  EXPECT_TRUE(at::equal(layer(x), y));
  EXPECT_FALSE(at::equal(layer(x), y));
  const at::Tensor kept = y.ne(0).flatten(1);
  EXPECT_TRUE(at::equal(kept.all(1), kept.any(1)));
  EXPECT_NEAR(kept.any(1).to(at::kFloat).mean().item<double>(), 0.75, 0.08);
  const at::Tensor rows = kept.any(1).nonzero().squeeze(1);
  EXPECT_TRUE(at::allclose(y.index_select(0, rows), x.index_select(0, rows) / 0.75));
  EXPECT_TRUE(DropPath(0)(x).is_same(x));
}

TEST(DropPath, GrowsWithTheDepth) {
  EXPECT_EQ(drop_path_probability(0.3, 0, 4), 0);
  EXPECT_DOUBLE_EQ(drop_path_probability(0.3, 1, 4), 0.1);
  EXPECT_DOUBLE_EQ(drop_path_probability(0.3, 3, 4), 0.3);
  EXPECT_EQ(drop_path_probability(0.3, 0, 1), 0);
}

}  // namespace
}  // namespace weft::nn
