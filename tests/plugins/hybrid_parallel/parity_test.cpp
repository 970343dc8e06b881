// Tensor parallelism with every kind of data parallelism, against one rank; tests/policies trains every
// family on a tensor axis.
#include "policies/gpt2/gpt2_trial.hpp"

namespace weft::test {

namespace {

constexpr const char* kSplitGather =
    R"(, "enable_sequence_parallelism": true, "sequence_parallelism_mode": "split_gather"})";

JobOptions hybrid(const std::string& options, const std::string& precision = "fp32") {
  return {.strategy = "hybrid_parallel", .options = options, .precision = precision};
}

class Precisions : public testing::TestWithParam<std::string> {};

TEST_P(Precisions, DataAxesOfEveryKindMultiply) {
  const Trial trial = gpt2_trial("GPT2LMHeadModel", GetParam());
  std::vector<Case> cases;
  for (const char* stage : {"0", "1", "2"})
    cases.push_back(
        {hybrid(std::string(R"({"tp_size": 2, "zero_stage": )") + stage + "}", GetParam()), trial});
  expect_gradients_of_one_rank(cases, 4);
}

INSTANTIATE_TEST_SUITE_P(HybridParallel, Precisions, testing::Values("fp32", "fp64"));

TEST(HybridParallel, TrainsAsOneRankWithClippingAndRecomputation) {
  JobOptions options = hybrid(R"({"tp_size": 2, "zero_stage": 1})");
  options.max_grad_norm = 0.05;
  options.recompute = "all";
  options.accumulate = 2;
  expect_steps_of_one_rank(options, {2, 4}, gpt2_trial("GPT2LMHeadModel", "fp32"));
  options.options = std::string(R"({"tp_size": 2, "zero_stage": 1)") + kSplitGather;
  expect_steps_of_one_rank(options, {2, 4}, gpt2_trial("GPT2LMHeadModel", "fp32"));
}

}  // namespace

}  // namespace weft::test
