// Tensor parallelism, alone and with every kind of data parallelism, against one rank.
#include "plugins/hybrid_parallel/classes.hpp"

namespace weft::test {

namespace {

constexpr const char* kSplitGather =
    R"(, "enable_sequence_parallelism": true, "sequence_parallelism_mode": "split_gather"})";

JobOptions hybrid(const std::string& options, const std::string& precision = "fp32") {
  return {.strategy = "hybrid_parallel", .options = options, .precision = precision};
}

class Classes : public testing::TestWithParam<std::tuple<const char*, std::string>> {};

TEST_P(Classes, HaveTheGradientsOfOneRank) {
  const auto& [architecture, precision] = GetParam();
  const Trial trial = gpt2_trial(architecture, precision);
  expect_gradients_of_one_rank(hybrid(R"({"tp_size": 2})", precision), {2}, trial);
  expect_gradients_of_one_rank(hybrid(R"({"tp_size": 4})", precision), {4}, trial);
}

// 7 positions: no number of ranks divides them.
TEST_P(Classes, HaveTheGradientsOfOneRankWithSplitSequences) {
  const auto& [architecture, precision] = GetParam();
  const Trial trial = gpt2_trial(architecture, precision);
  for (const int size : {2, 4}) {
    const JobOptions options = hybrid("{\"tp_size\": " + std::to_string(size) + kSplitGather, precision);
    JobOptions recomputed = options;
    recomputed.recompute = "all";
    expect_gradients_of_one_rank({{options, trial}, {recomputed, trial}}, size);
  }
}

INSTANTIATE_TEST_SUITE_P(Gpt2, Classes,
                         testing::Combine(testing::ValuesIn(kGpt2Classes), testing::Values("fp32", "fp64")));

TEST(HybridParallel, BaseModelsHaveTheGradientsOfOneRankUnderACriterion) {
  for (const char* architecture : {"GPT2Model", "LlamaModel", "OPTModel", "BloomModel"}) {
    const Tensors expected =
        criterion_gradients(one_rank(), {.strategy = "none", .precision = "fp64"}, architecture);
    for (const int ranks : {2, 4})
      on_ranks({ranks}, [&](World& world) {
        const std::string size = std::to_string(ranks);
        for (const std::string& more : {std::string("}"), std::string(kSplitGather)})
          expect_near(
              criterion_gradients(world, hybrid("{\"tp_size\": " + size + more, "fp64"), architecture),
              expected, 1e-10);
      });
  }
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

TEST_P(Precisions, EveryStrategyTakesATensorAxis) {
  const Trial trial = gpt2_trial("GPT2LMHeadModel", GetParam());
  std::vector<Case> cases;
  for (const char* strategy : {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"})
    cases.push_back({{.strategy = strategy, .options = R"({"tp_size": 2})", .precision = GetParam()}, trial});
  for (const int ranks : {2, 4}) expect_gradients_of_one_rank(cases, ranks);
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
