// Trains every class of a family in every way (class_cases.hpp) against one rank.
#include "base/text.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/class_cases.hpp"
#include "policies/trials.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

// Compares those that are not refused with one rank, and expects that boost() refuses the others.
void expect_gradients_unless_refused(const std::vector<Case>& cases, int ranks) {
  std::vector<Case> trained;
  std::vector<std::pair<Case, std::string>> refused;
  for (const Case& job : cases) {
    const std::string reason = refusal(job);
    if (reason.empty())
      trained.push_back(job);
    else
      refused.emplace_back(job, reason);
  }
  expect_refusals(refused, ranks);
  expect_gradients_of_one_rank(trained, ranks);
}

class Classes : public testing::TestWithParam<int> {};

// No tiny model has a number of positions that the ranks divide.
TEST_P(Classes, HaveTheGradientsOfOneRankUnlessTheirPlansAreRefused) {
  std::vector<Case> all;
  for (const ClassCase& item : class_cases())
    if (item.ranks == GetParam()) all.push_back(item.job);
  expect_gradients_unless_refused(slice(fmt::format("Classes {} {}", kFamily, GetParam()), all, 8),
                                  GetParam());
}

INSTANTIATE_TEST_SUITE_P(OnRanks, Classes, testing::Values(2, 3, 4),
                         [](const auto& info) { return std::to_string(info.param); });

TEST(PackedDocuments, HaveTheGradientsOfOneRankInEverySequenceModeAndInStages) {
  std::vector<Case> all;
  for (const TinyTrial& tiny : family_trials().packed) {
    const auto add = [&](JobOptions options) {
      options.precision = "fp64";
      options.recompute = all.size() % 2 == 0 ? "off" : "all";
      all.push_back({std::move(options), tiny.trial("fp64"), tiny.name});
    };
    add({.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})"});
    add({.strategy = "hybrid_parallel", .options = R"({"pp_size": 2, "num_microbatches": 3})"});
    for (const Split& split : kSplits)
      if (split.ranks == 2) add(laid_out(split));
  }
  if (!all.empty()) expect_gradients_unless_refused(all, 2);
}

// In as many model chunks as two stages can have, so that nearly every field of every State passes a boundary
// as each mode splits it.
TEST(SplitSequences, HaveTheGradientsOfOneRankInStagesOfOneUnit) {
  std::vector<Case> all;
  for (const TinyTrial& tiny : family_trials().models) {
    if (tiny.draws_for_samples) continue;
    const Trial trial = tiny.trial("fp64");
    const size_t units = trial.model({.precision = "fp64"}).module().units().size();
    for (const Split& split : kSplits) {
      if (split.ranks != 2) continue;
      JobOptions options = in_mode(
          split.mode, fmt::format(R"({}"pp_size": 2, "pp_style": "interleaved", "num_model_chunks": {}, )"
                                  R"("num_microbatches": 3, )",
                                  split.axes, units / 2));
      options.recompute = all.size() % 2 == 0 ? "off" : "all";
      all.push_back({std::move(options), trial, tiny.name});
    }
  }
  expect_gradients_unless_refused(slice(fmt::format("Stages of one unit {}", kFamily), all, 4), 4);
}

}  // namespace

}  // namespace weft::test
