// Plans of ViT's policy with a mistake must be refused or have other gradients than one rank.
#include "plugins/support/broken_plans.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/vit/trials.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

constexpr Split kModes[] = {{"split_gather", R"("tp_size": 2, )", 2},
                            {"ring", R"("tp_size": 2, )", 2},
                            {"all_to_all", R"("sp_size": 2, )", 2},
                            {"ring_attn", R"("sp_size": 2, )", 2}};

class BrokenVitPlan : public testing::TestWithParam<Split> {};

TEST_P(BrokenVitPlan, IsRefused) {
  const Split& split = GetParam();
  expect_every_mistake_is_refused(std::string("BrokenVit ") + split.mode, vit_trial(kWithoutBiases),
                                  in_mode(split.mode, split.axes), split.ranks, 6);
}

INSTANTIATE_TEST_SUITE_P(Modes, BrokenVitPlan, testing::ValuesIn(slice("BrokenVitPlan", kModes, 2)), name_of);

}  // namespace

}  // namespace weft::test
