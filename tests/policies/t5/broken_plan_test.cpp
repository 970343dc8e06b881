// Plans of T5's policy with a mistake must be refused or have other gradients than one rank.
#include "plugins/support/broken_plans.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/t5/trials.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

TEST(BrokenT5Plan, IsRefused) {
  for (const char* keys : {kTied, kUntied})
    expect_every_mistake_is_refused(std::string("BrokenT5 ") + keys, t5_trial(kGeneration, keys, 1e-10),
                                    under("hybrid_parallel", R"({"tp_size": 2})", "fp64"), 2, 12);
}

class BrokenT5SequencePlan : public testing::TestWithParam<Split> {};

TEST_P(BrokenT5SequencePlan, IsRefused) {
  const Split& split = GetParam();
  expect_every_mistake_is_refused(std::string("T5 ") + split.mode + split.axes,
                                  t5_trial(kGeneration, kUntied, 1e-10), in_mode(split.mode, split.axes),
                                  split.ranks, 6);
}

INSTANTIATE_TEST_SUITE_P(Modes, BrokenT5SequencePlan,
                         testing::ValuesIn(slice("BrokenT5SequencePlan", kSplits, 3)), name_of);

}  // namespace

}  // namespace weft::test
