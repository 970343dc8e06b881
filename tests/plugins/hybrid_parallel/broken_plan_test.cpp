// Plans of shipped policies with a mistake: what is not refused has other gradients than one rank, on tensor
// axes and in every way to split sequences.
#include "plugins/hybrid_parallel/classes.hpp"
#include "plugins/support/broken_plans.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

constexpr size_t kAll = 1000;

TEST(BrokenPlan, OfGpt2IsSeen) {
  expect_every_mistake_is_seen(
      "BrokenGpt2", gpt2_trial("GPT2LMHeadModel", "fp64"),
      {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})", .precision = "fp64"}, 2, kAll);
}

TEST(BrokenPlan, OfLlamaIsSeen) {
  expect_every_mistake_is_seen(
      "BrokenLlama", llama_trial({"LlamaForCausalLM", 2, true}, "fp64"),
      {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})", .precision = "fp64"}, 2, kAll);
}

class BrokenSequencePlan : public testing::TestWithParam<Split> {};

TEST_P(BrokenSequencePlan, IsSeen) {
  const Split& split = GetParam();
  const JobOptions options = in_mode(split.mode, split.axes);
  const std::string name = std::string(split.mode) + split.axes;
  expect_every_mistake_is_seen("Gpt2 " + name, gpt2_trial("GPT2LMHeadModel", "fp64"), options, split.ranks,
                               6);
  expect_every_mistake_is_seen("Llama " + name, llama_trial({"LlamaForCausalLM", 2, true}, "fp64"), options,
                               split.ranks, 6);
}

INSTANTIATE_TEST_SUITE_P(Modes, BrokenSequencePlan,
                         testing::ValuesIn(slice("BrokenSequencePlan", kSplits, 4)), name_of);

}  // namespace

}  // namespace weft::test
