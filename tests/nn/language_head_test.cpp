// The head of language models computes the logits that somebody reads.
#include "weft/nn/language_head.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "weft/nn/forward_context.hpp"

namespace weft::test {
namespace {

constexpr int64_t kChannels = 6, kVocabulary = 11;

// A head of random weights with the hidden states and the labels of 2 sequences of 8 tokens.
class LanguageHeadTest : public testing::TestWithParam<bool> {
 protected:
  LanguageHeadTest()
      : head_(
            module_,
            {.channels = kChannels, .vocabulary = kVocabulary, .dtype = at::kDouble, .shifts = GetParam()}) {
    at::manual_seed(5);
    hidden_ = at::randn({2, 8, kChannels}, at::kDouble).set_requires_grad(true);
    labels_ = at::randint(kVocabulary, {2, 8}, at::kLong);
    const nn::Linear& layer = head_.layer();
    weight_ = at::randn({kVocabulary, kChannels}, at::kDouble).set_requires_grad(true);
    const_cast<at::Tensor&>(layer.weight) = weight_;
  }
  Batch batch() const { return {{nn::kLabels, labels_}}; }

  struct Result {
    at::Tensor logits, loss, of_hidden, of_weight;
  };
  Result run(bool loss_alone) {
    nn::ForwardContext context({{"", 8, 2, {{0, 8}}}});
    if (loss_alone) context.want_loss_alone(batch());
    const nn::RunningUnit running(context, 0);
    State state = {{nn::kHidden, hidden_}};
    head_.forward([](const at::Tensor& x) { return x; }, state);
    Result result = {state.at("logits"), head_.loss(state, batch()).at(0).sum, {}, {}};
    hidden_.mutable_grad().reset();
    weight_.mutable_grad().reset();
    result.loss.backward();
    result.of_hidden = hidden_.grad();
    result.of_weight = weight_.grad();
    return result;
  }

  torch::nn::Module module_{"model"};
  nn::LanguageHead head_;
  at::Tensor hidden_, labels_, weight_;
};

void expect_near(const at::Tensor& found, const at::Tensor& wanted) {
  EXPECT_LT((found - wanted).abs().max().item<double>(), 1e-12);
}

TEST_P(LanguageHeadTest, LeavesOutLogitsWithoutLabelsWhereTheLossIsAlone) {
  labels_.index_put_({at::tensor({0, 0, 0, 0, 1, 1, 1, 1}), at::tensor({0, 2, 3, 6, 1, 4, 5, 7})},
                     at::scalar_tensor(nn::kIgnored, at::kLong));
  const Result all = run(false), few = run(true);
  EXPECT_EQ(all.logits.sizes(), at::IntArrayRef({2, 8, kVocabulary}));
  // Nothing predicts the first token, which in the second sequence has a label.
  EXPECT_EQ(few.logits.sizes(), at::IntArrayRef({GetParam() ? 7 : 8, kVocabulary}));
  expect_near(few.loss, all.loss);
  expect_near(few.of_hidden, all.of_hidden);
  expect_near(few.of_weight, all.of_weight);
}

TEST_P(LanguageHeadTest, ComputesAllWhereMostCount) {
  labels_[1][3] = nn::kIgnored;
  EXPECT_EQ(run(true).logits.sizes(), at::IntArrayRef({2, 8, kVocabulary}));
}

// A rank may have samples without any label; the layers below still take part in backward.
TEST_P(LanguageHeadTest, ReachesTheHiddenStatesWithoutAnyLabel) {
  labels_.fill_(nn::kIgnored);
  const Result none = run(true);
  EXPECT_EQ(none.logits.sizes(), at::IntArrayRef({1, kVocabulary}));
  EXPECT_EQ(none.loss.item<double>(), 0);
  EXPECT_EQ(none.of_hidden.abs().sum().item<double>(), 0);
  EXPECT_EQ(none.of_hidden.sizes(), hidden_.sizes());
}

INSTANTIATE_TEST_SUITE_P(, LanguageHeadTest, testing::Bool(),
                         [](const auto& shifts) { return shifts.param ? "Causal" : "Masked"; });

}  // namespace
}  // namespace weft::test
