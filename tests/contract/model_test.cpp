// The suite for models sees a gradient that is not the derivative of the loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "contract/model.hpp"
#include "support/slice.hpp"
#include "train/training/toy_model.hpp"

namespace weft::contract {
namespace {

std::vector<Check> failed_of(const Batch& batch) {
  Findings findings;
  const auto open = [] { return Model::adopt(test::make_toy("\"gated\": false", at::kDouble)); };
  check_gradients(open, {batch, {}}, findings);
  std::vector<Check> failed;
  for (const Check& check : findings.checks())
    if (!check.passed) failed.push_back(check);
  return failed;
}

TEST(ModelSuite, SeesAGradientThatStopsInsideTheModel) {
  const Batch batch = test::toy_batch(5, 1, false);
  EXPECT_TRUE(failed_of(batch).empty());
  const std::vector<Check> failed = failed_of(test::with(batch, "cut", 1));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].name, "gradients are the derivatives of the loss");
  EXPECT_NE(failed[0].text.find("blocks.0"), std::string::npos) << failed[0].text;
}

TEST(ModelSuite, PassesClassesOfWeft) {
  setenv("WEFT_LOG", "off", 1);
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
    EXPECT_EQ(passed, 3u) << name;
  }
}

}  // namespace
}  // namespace weft::contract
