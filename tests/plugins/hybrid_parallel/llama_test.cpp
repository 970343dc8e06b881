// Llama on a tensor axis: grouped queries, and heads of keys that are fewer than ranks.
#include "base/text.hpp"
#include "plugins/hybrid_parallel/classes.hpp"
#include "plugins/support/bytes.hpp"

namespace weft::test {

namespace {

JobOptions options_of(const std::string& strategy, const std::string& options, const std::string& precision) {
  return {.strategy = strategy, .options = options, .precision = precision};
}

class LlamaClasses : public testing::TestWithParam<std::tuple<TinyLlama, std::string>> {};

TEST_P(LlamaClasses, HaveTheGradientsOfOneRank) {
  const auto& [llama, precision] = GetParam();
  const Trial trial = llama_trial(llama, precision);
  expect_gradients_of_one_rank(options_of("hybrid_parallel", R"({"tp_size": 2})", precision), {2}, trial);
  expect_gradients_of_one_rank(options_of("hybrid_parallel", R"({"tp_size": 4})", precision), {4}, trial);
}

// 7 positions: no number of ranks divides them.
TEST_P(LlamaClasses, HaveTheGradientsOfOneRankWithSplitSequences) {
  const auto& [llama, precision] = GetParam();
  for (const int size : {2, 4}) {
    const JobOptions options = options_of("hybrid_parallel",
                                          fmt::format(R"({{"tp_size": {}, "enable_sequence_parallelism": true,
                                                      "sequence_parallelism_mode": "split_gather"}})",
                                                      size),
                                          precision);
    const Trial trial = llama_trial(llama, precision);
    JobOptions recomputed = options;
    recomputed.recompute = "all";
    expect_gradients_of_one_rank({{options, trial}, {recomputed, trial}}, size);
  }
}

std::string name_of(const testing::TestParamInfo<LlamaClasses::ParamType>& info) {
  const auto& [llama, precision] = info.param;
  return llama.architecture + std::to_string(llama.key_heads) + "_" + precision;
}

INSTANTIATE_TEST_SUITE_P(All, LlamaClasses,
                         testing::Combine(testing::Values(TinyLlama{"LlamaForCausalLM", 4, false},
                                                          TinyLlama{"LlamaForCausalLM", 2, true},
                                                          TinyLlama{"LlamaForSequenceClassification", 1,
                                                                    false}),
                                          testing::Values("fp32", "fp64")),
                         name_of);

// q, k and v send the gradient of what they read once, and so do gate and up: as few as GPT-2's.
WEFT_RANKS_TEST(LlamaBytes, AStepSendsFourActivationsForEachBlock, 2, 4) {
  JobOptions options =
      options_of("hybrid_parallel", fmt::format(R"({{"tp_size": {}}})", world.size()), "fp32");
  options.recompute = "off";
  Job job = boost(world, tiny_llama({"LlamaForCausalLM", 4, true}, "fp32"), options);
  const Batch batch = llama_batch("LlamaForCausalLM", 1);
  const int64_t labels = batch.at("labels").numel(), activation = labels * 24, layers = 2;
  const int64_t elements = (4 * layers + 2) * activation + 3 * labels;
  const std::map<std::string, int64_t> expected = {
      {"all_reduce", elements * 4 * 2 * (world.size() - 1) / world.size()}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), expected);
}

// As of GPT-2: no rank keeps what q, k and v read, it is gathered again.
WEFT_RANKS_TEST(LlamaBytes, SplitSequencesSendFiveQuarters, 2, 4) {
  JobOptions options = options_of("hybrid_parallel",
                                  fmt::format(R"({{"tp_size": {}, "enable_sequence_parallelism": true,
                                                   "sequence_parallelism_mode": "split_gather"}})",
                                              world.size()),
                                  "fp32");
  options.recompute = "off";
  Job job = boost(world, tiny_llama({"LlamaForCausalLM", 4, true}, "fp32"), options);
  const at::Tensor ids = at::randint(20, {3, 8}, at::kLong);
  const Batch batch = {{"input_ids", ids}, {"labels", ids}};
  const int64_t labels = ids.numel(), layers = 2, ranks = world.size(), activation = labels * 24 * 4;
  auto sent = sent_bytes([&] { job.accumulate_gradients(batch); });
  EXPECT_EQ(sent["all_gather"], (6 * layers + 2) * activation * (ranks - 1) / ranks);
  EXPECT_EQ(sent["reduce_scatter"], (4 * layers + 1) * activation * (ranks - 1) / ranks);
}

// Llama and the families of its modules, which differ in biases, windows and norms of heads.
std::vector<TinyLlama> families() {
  return {{"LlamaForCausalLM", 2, true}, kMistral, kQwen2, kQwen3};
}

TEST(HybridParallel, LlamasFamiliesTrainUnderEveryStrategyWithATensorAxis) {
  std::vector<Case> cases;
  for (const char* strategy : {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"})
    for (const TinyLlama& family : families())
      cases.push_back({options_of(strategy, R"({"tp_size": 2})", "fp64"), llama_trial(family, "fp64")});
  expect_gradients_of_one_rank(cases, 4);
}

TEST(HybridParallel, LlamasFamiliesHaveTheGradientsOfOneRank) {
  for (const int ranks : {2, 4}) {
    const std::string options = fmt::format(R"({{"tp_size": {}}})", ranks);
    std::vector<Case> cases;
    for (const TinyLlama& family : {kMistral, kQwen2, kQwen3}) {
      cases.push_back({options_of("hybrid_parallel", options, "fp64"), llama_trial(family, "fp64")});
      cases.back().options.recompute = "all";
      // Biases of keys in fp64 only, as in tiny_llama().
      if (family.type != "qwen2")
        cases.push_back({options_of("hybrid_parallel", options, "fp32"), llama_trial(family, "fp32")});
    }
    expect_gradients_of_one_rank(cases, ranks);
  }
}

}  // namespace

}  // namespace weft::test
