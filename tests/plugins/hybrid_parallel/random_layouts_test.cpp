// Layouts drawn at random, of all strategies, axes, schedules and modes together, against one rank.
#include <cstdio>

#include "plugins/support/random_cases.hpp"
#include "plugins/support/refusals.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/bert/bert_trial.hpp"
#include "support/seed.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

// An ordinary run trains the first of the layouts that a full run trains.
TEST(RandomLayouts, HaveTheGradientsOfOneRankOrAreRefusedForAnOption) {
  constexpr size_t kWhole = 30, kFew = 4;
  const uint32_t seed = fresh_seed();
  std::printf("RandomLayouts: WEFT_TEST_SEED=%u (WEFT_TEST_FULL=1 trains %zu layouts)\n", seed, kWhole);
  SCOPED_TRACE(fmt::format("WEFT_TEST_SEED={}", seed));
  const DrawnCases drawn = draw_cases(seed, runs_whole_matrices() ? kWhole : kFew);
  for (const auto& [ranks, cases] : drawn.refused) expect_refusals(cases, ranks);
  for (const auto& [ranks, cases] : drawn.trained) expect_gradients_of_one_rank(cases, ranks);
}

// Sequences of one position, which only one of the ranks that split them has.
TEST(Layouts, MayHaveStagesOnRanksWithoutPositions) {
  std::vector<Case> cases;
  for (const Split& split : kSplits) {
    if (split.ranks != 2) continue;
    const char* const style = cases.size() % 2 == 0 ? "1f1b" : "zbv";
    const std::string axes = split.axes + fmt::format(R"("pp_size": 2, "pp_style": "{}", )", style);
    cases.push_back(
        {in_mode(split.mode, axes), bert_trial({"BertForMaskedLM", false, 1}, "fp64"), "one position"});
  }
  expect_gradients_of_one_rank(cases, 4);
}

}  // namespace

}  // namespace weft::test
