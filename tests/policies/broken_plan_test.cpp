// Plans of a family's policy with a mistake must be refused, on tensor axes and in every sequence mode.
#include "plugins/support/broken_plans.hpp"

#include "base/text.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/trials.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

class BrokenPlans : public testing::TestWithParam<Split> {};

TEST_P(BrokenPlans, AreRefused) {
  const Split& split = GetParam();
  const std::string layout = fmt::format("{} {}{}", kFamily, split.mode, split.axes);
  for (const TinyTrial& model : slice("plans " + layout, family_trials().plans, 1))
    expect_every_mistake_is_refused(fmt::format("{} {}{}", model.name, split.mode, split.axes),
                                    model.trial("fp64"), laid_out(split), split.ranks,
                                    *split.mode == 0 ? 8 : 5);
}

INSTANTIATE_TEST_SUITE_P(Whole, BrokenPlans, testing::Values(kWholes[0]), name_of);
INSTANTIATE_TEST_SUITE_P(Split, BrokenPlans,
                         testing::ValuesIn(slice(std::string("BrokenPlans ") + kFamily, kSplits, 1)),
                         name_of);

}  // namespace

}  // namespace weft::test
