// Plans of ChatGLM2's policy with a mistake must be refused.
#include "plugins/support/broken_plans.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/chatglm/trials.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

TEST(BrokenChatGlmPlan, IsRefused) {
  for (const char* keys : {kTwoGroups, kUngrouped})
    expect_every_mistake_is_refused(
        std::string("BrokenChatGlm ") + keys, chatglm_trial(keys, "fp64"),
        {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})", .precision = "fp64"}, 2, 12);
}

class BrokenChatGlmSequencePlan : public testing::TestWithParam<Split> {};

TEST_P(BrokenChatGlmSequencePlan, IsRefused) {
  const Split& split = GetParam();
  expect_every_mistake_is_refused(std::string("ChatGlm ") + split.mode + split.axes,
                                  chatglm_trial(kTwoGroups, "fp64"), in_mode(split.mode, split.axes),
                                  split.ranks, 6);
}

INSTANTIATE_TEST_SUITE_P(Modes, BrokenChatGlmSequencePlan,
                         testing::ValuesIn(slice("BrokenChatGlmSequencePlan", kSplits, 2)), name_of);

}  // namespace

}  // namespace weft::test
