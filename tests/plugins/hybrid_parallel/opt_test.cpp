// OPT on a tensor axis: every class, norms before and after, and embeddings that a replicated layer widens.
#include "base/text.hpp"
#include "plugins/hybrid_parallel/classes.hpp"

namespace weft::test {

namespace {

// 7 positions: no number of ranks divides them.
TEST(OptClasses, HaveTheGradientsOfOneRank) {
  for (const int size : {2, 4}) {
    std::vector<Case> cases;
    for (const TinyOpt& opt :
         {TinyOpt{"OPTForCausalLM"}, TinyOpt{"OPTForCausalLM", false},
          TinyOpt{"OPTForSequenceClassification", false}, TinyOpt{"OPTForQuestionAnswering"}})
      for (const char* more : {"", R"(, "enable_sequence_parallelism": true,
                                        "sequence_parallelism_mode": "split_gather")"})
        cases.push_back({{.strategy = "hybrid_parallel",
                          .options = fmt::format(R"({{"tp_size": {}{}}})", size, more),
                          .recompute = *more == 0 ? "off" : "all",
                          .precision = "fp64"},
                         opt_trial(opt, "fp64")});
    expect_gradients_of_one_rank(cases, size);
  }
}

TEST(OptClasses, TrainUnderEveryStrategyWithATensorAxis) {
  std::vector<Case> cases;
  for (const char* strategy : {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"})
    cases.push_back({{.strategy = strategy, .options = R"({"tp_size": 2})", .precision = "fp32"},
                     opt_trial({"OPTForCausalLM"}, "fp32")});
  expect_gradients_of_one_rank(cases, 4);
}

}  // namespace

}  // namespace weft::test
