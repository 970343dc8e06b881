// Plans of shipped policies with a mistake must be refused, on tensor axes and in every sequence mode.
#include "plugins/hybrid_parallel/classes.hpp"
#include "plugins/support/broken_plans.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

constexpr size_t kAll = 1000;

TEST(BrokenPlan, OfGpt2IsRefused) {
  expect_every_mistake_is_refused(
      "BrokenGpt2", gpt2_trial("GPT2LMHeadModel", "fp64"),
      {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})", .precision = "fp64"}, 2, kAll);
}

TEST(BrokenPlan, OfLlamaIsRefused) {
  expect_every_mistake_is_refused(
      "BrokenLlama", llama_trial({"LlamaForCausalLM", 2, true}, "fp64"),
      {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})", .precision = "fp64"}, 2, kAll);
}

// Where a replicated layer sees a part of the positions. Without biases, of which some have no gradient.
TEST(BrokenPlan, OfOptIsRefused) {
  expect_every_mistake_is_refused("BrokenOpt", opt_trial({"OPTForCausalLM", true, /*biases=*/false}, "fp64"),
                                  in_mode("split_gather", R"("tp_size": 2, )"), 2, 8);
}

TEST(BrokenPlan, OfBloomIsRefused) {
  expect_every_mistake_is_refused(
      "BrokenBloom", bloom_trial({"BloomForCausalLM"}, "fp64"),
      {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})", .precision = "fp64"}, 2, 8);
}

TEST(BrokenPlan, OfQwen3IsRefused) {
  TinyLlama two_key_heads = kQwen3;
  two_key_heads.key_heads = 2;
  expect_every_mistake_is_refused(
      "BrokenQwen3", llama_trial(two_key_heads, "fp64"),
      {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})", .precision = "fp64"}, 2, kAll);
}

class BrokenSequencePlan : public testing::TestWithParam<Split> {};

TEST_P(BrokenSequencePlan, IsRefused) {
  const Split& split = GetParam();
  const JobOptions options = in_mode(split.mode, split.axes);
  const std::string name = std::string(split.mode) + split.axes;
  expect_every_mistake_is_refused("Gpt2 " + name, gpt2_trial("GPT2LMHeadModel", "fp64"), options, split.ranks,
                                  6);
  expect_every_mistake_is_refused("Llama " + name, llama_trial({"LlamaForCausalLM", 2, true}, "fp64"),
                                  options, split.ranks, 6);
}

INSTANTIATE_TEST_SUITE_P(Modes, BrokenSequencePlan,
                         testing::ValuesIn(slice("BrokenSequencePlan", kSplits, 4)), name_of);

}  // namespace

}  // namespace weft::test
