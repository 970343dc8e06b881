// Bloom on a tensor axis: every class, and slopes of the heads that a rank has, which are no power of two.
#include "base/text.hpp"
#include "plugins/hybrid_parallel/classes.hpp"

namespace weft::test {

namespace {

// 7 positions: no number of ranks divides them.
TEST(BloomClasses, HaveTheGradientsOfOneRank) {
  for (const int size : {2, 4}) {
    std::vector<Case> cases;
    for (const TinyBloom& bloom :
         {TinyBloom{"BloomForCausalLM"}, TinyBloom{"BloomForCausalLM", true},
          TinyBloom{"BloomForSequenceClassification", true}, TinyBloom{"BloomForTokenClassification"},
          TinyBloom{"BloomForQuestionAnswering"}})
      for (const char* more : {"", R"(, "enable_sequence_parallelism": true,
                                        "sequence_parallelism_mode": "split_gather")"})
        cases.push_back({{.strategy = "hybrid_parallel",
                          .options = fmt::format(R"({{"tp_size": {}{}}})", size, more),
                          .recompute = *more == 0 ? "off" : "all",
                          .precision = "fp64"},
                         bloom_trial(bloom, "fp64")});
    expect_gradients_of_one_rank(cases, size);
  }
}

TEST(BloomClasses, TrainUnderEveryStrategyWithATensorAxis) {
  std::vector<Case> cases;
  for (const char* strategy : {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"})
    cases.push_back({{.strategy = strategy, .options = R"({"tp_size": 2})", .precision = "fp32"},
                     bloom_trial({"BloomForCausalLM"}, "fp32")});
  expect_gradients_of_one_rank(cases, 4);
}

}  // namespace

}  // namespace weft::test
