// The suite for models sees a gradient that is not the derivative of the loss.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "contract/model.hpp"
#include "support/slice.hpp"
#include "train/training/toy_model.hpp"

namespace weft::contract {
namespace {

class ModelSuite : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(1);  // ranks are forks
  }
};

std::vector<Check> failed_of(const Batch& batch) {
  Findings findings;
  const auto open = [] { return Model::adopt(test::make_toy("\"gated\": false", at::kDouble)); };
  check_gradients(open, {batch, {}}, findings);
  std::vector<Check> failed;
  for (const Check& check : findings.checks())
    if (!check.passed) failed.push_back(check);
  return failed;
}

TEST_F(ModelSuite, SeesAGradientThatStopsInsideTheModel) {
  const Batch batch = test::toy_batch(5, 1, false);
  EXPECT_TRUE(failed_of(batch).empty());
  const std::vector<Check> failed = failed_of(test::with(batch, "cut", 1));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].name, "gradients are the derivatives of the loss");
  EXPECT_NE(failed[0].text.find("blocks.0"), std::string::npos) << failed[0].text;
}

TEST_F(ModelSuite, SeesALossThatRanksDoNotShare) {
  const auto open = [] { return Model::adopt(test::make_toy("\"gated\": false", at::kDouble)); };
  const auto failed_with = [&](const Criterion& criterion) {
    std::string failed;
    check_on_ranks(open, {test::toy_batch(4, 1, false), criterion}, [&](const Check& check) {
      if (!check.passed) failed += check.name + "\n";
    });
    return failed;
  };
  const auto of_samples = [](const State& outputs) {
    return outputs.begin()->second.flatten(1).square().sum(1);
  };
  EXPECT_EQ(failed_with({}), "");
  EXPECT_EQ(failed_with([&](const State& outputs, const Batch&) { return of_samples(outputs).mean(); }), "");
  EXPECT_NE(failed_with([&](const State& outputs, const Batch&) {
              return of_samples(outputs).sum();
            }).find("2 ranks: the loss is that of one rank"),
            std::string::npos);
}

TEST_F(ModelSuite, SaysThatTheModelsOwnLossDoesNotRun) {
  std::string told;
  check_model("GPT2Model", "", [&](const Check& check) {
    EXPECT_TRUE(check.passed) << check.name << ": " << check.text;
    told += check.name + ": " + check.text + "\n";
  });
  EXPECT_NE(told.find("learns from labels: not checked"), std::string::npos) << told;
}

TEST_F(ModelSuite, PassesClassesOfWeft) {
  const std::vector<std::string> all = {"GPT2LMHeadModel",
                                        "LlamaForCausalLM",
                                        "BertForPreTraining",
                                        "OPTForCausalLM",
                                        "T5ForConditionalGeneration",
                                        "ViTForImageClassification",
                                        "WhisperForConditionalGeneration"};
  for (const std::string& name : test::slice("shipped models", all, 2)) {
    std::string failed;
    size_t passed = 0;
    check_model(name, "", [&](const Check& check) {
      passed += check.passed;
      if (!check.passed) failed += check.name + ": " + check.text + "\n";
    });
    EXPECT_EQ(failed, "") << name;
    EXPECT_EQ(passed, 13u) << name;
  }
}

}  // namespace
}  // namespace weft::contract
