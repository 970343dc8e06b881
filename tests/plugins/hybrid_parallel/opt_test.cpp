// OPT on a tensor axis: every class, norms before and after, and embeddings that a replicated layer widens.
#include <map>

#include "base/text.hpp"
#include "plugins/hybrid_parallel/classes.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

constexpr const char* kSplit = R"(, "enable_sequence_parallelism": true,
                                      "sequence_parallelism_mode": "split_gather")";

struct Layout {
  TinyOpt opt;
  const char* more;  // keys of the options
  int ranks;
};

std::vector<Layout> layouts() {
  std::vector<Layout> layouts;
  for (const TinyOpt& opt :
       {TinyOpt{"OPTForCausalLM"}, TinyOpt{"OPTForCausalLM", false},
        TinyOpt{"OPTForSequenceClassification", false}, TinyOpt{"OPTForQuestionAnswering"}})
    for (const char* more : {"", kSplit})
      for (const int ranks : {2, 4}) layouts.push_back({opt, more, ranks});
  return layouts;
}

// 7 positions: no number of ranks divides them.
TEST(OptClasses, HaveTheGradientsOfOneRank) {
  std::map<int, std::vector<Case>> cases;
  for (const Layout& layout : slice("OptClasses", layouts(), 6))
    cases[layout.ranks].push_back(
        {{.strategy = "hybrid_parallel",
          .options = fmt::format(R"({{"tp_size": {}{}}})", layout.ranks, layout.more),
          .recompute = layout.more == kSplit ? "all" : "off",
          .precision = "fp64"},
         opt_trial(layout.opt, "fp64")});
  for (const auto& [ranks, of_ranks] : cases) expect_gradients_of_one_rank(of_ranks, ranks);
}

TEST(OptClasses, TrainUnderEveryStrategyWithATensorAxis) {
  constexpr const char* kStrategies[] = {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"};
  std::vector<Case> cases;
  for (const char* strategy : slice("OptStrategies", kStrategies, 2))
    cases.push_back({{.strategy = strategy, .options = R"({"tp_size": 2})", .precision = "fp32"},
                     opt_trial({"OPTForCausalLM"}, "fp32")});
  expect_gradients_of_one_rank(cases, 4);
}

}  // namespace

}  // namespace weft::test
