// Training on tensor and sequence axes and under every strategy, against one rank.
#include "base/text.hpp"
#include "plugins/support/bytes.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/chatglm/trials.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

JobOptions options_of(const std::string& strategy, const std::string& options, const std::string& precision) {
  return {.strategy = strategy, .options = options, .precision = precision};
}

// On 4 ranks each group of kTwoGroups is held by two of them, and that of kOneGroup by all.
TEST(ChatGlmTensorParallel, HasTheGradientsOfOneRank) {
  for (const int ranks : {2, 4}) {
    const std::string options = fmt::format(R"({{"tp_size": {}}})", ranks);
    std::vector<Case> cases;
    for (const char* keys : {kUngrouped, kTwoGroups, kOneGroup})
      for (const char* precision : {"fp32", "fp64"})
        cases.push_back({options_of("hybrid_parallel", options, precision), chatglm_trial(keys, precision)});
    cases.push_back(
        {options_of("hybrid_parallel", options, "fp64"), padded_chatglm_trial(kTwoGroups, "fp64")});
    cases.back().options.recompute = "all";
    expect_gradients_of_one_rank(cases, ranks);
  }
}

TEST(ChatGlmStrategies, HaveTheGradientsOfOneRank) {
  std::vector<Case> alone, with_tensor_axis;
  for (const char* strategy : {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"}) {
    alone.push_back({options_of(strategy, "{}", "fp64"), chatglm_trial(kTwoGroups, "fp64")});
    with_tensor_axis.push_back(
        {options_of(strategy, R"({"tp_size": 2})", "fp64"), chatglm_trial(kTwoGroups, "fp64")});
  }
  expect_gradients_of_one_rank(alone, 3);
  expect_gradients_of_one_rank(with_tensor_axis, 4);
}

TEST(ChatGlmTensorParallel, TrainsAsOneRankBesideDataParallelism) {
  JobOptions options = options_of("hybrid_parallel", R"({"tp_size": 2, "zero_stage": 1})", "fp32");
  options.max_grad_norm = 0.5;
  options.recompute = "all";
  expect_steps_of_one_rank(options, {4}, chatglm_trial(kTwoGroups, "fp32"));
}

class ChatGlmSequences : public testing::TestWithParam<Split> {};

// 7 positions: no number of ranks divides them.
TEST_P(ChatGlmSequences, HaveTheGradientsOfOneRank) {
  const auto options = [](const char* precision) {
    return in_mode(GetParam().mode, GetParam().axes, precision);
  };
  JobOptions recomputed = options("fp64");
  recomputed.recompute = "all";
  expect_gradients_of_one_rank({{options("fp32"), chatglm_trial(kTwoGroups, "fp32")},
                                {recomputed, chatglm_trial(kTwoGroups, "fp64")},
                                {options("fp64"), chatglm_trial(kUngrouped, "fp64")},
                                {options("fp64"), chatglm_trial(kOneGroup, "fp64")},
                                {options("fp64"), padded_chatglm_trial(kTwoGroups, "fp64")}},
                               GetParam().ranks);
}

INSTANTIATE_TEST_SUITE_P(Modes, ChatGlmSequences, testing::ValuesIn(slice("ChatGlmSequences", kSplits, 4)),
                         name_of);

// Queries, keys and values read one input, and so do gate and up: as few all-reduces as GPT-2's.
WEFT_RANKS_TEST(ChatGlmBytes, AStepSendsFourActivationsForEachBlock, 2, 4) {
  JobOptions options =
      options_of("hybrid_parallel", fmt::format(R"({{"tp_size": {}}})", world.size()), "fp32");
  options.recompute = "off";
  Job job = boost(world, tiny_chatglm(kUngrouped, "fp32"), options);
  const Batch batch = gpt2_batch(6, 1);
  const int64_t labels = batch.at("labels").numel(), activation = labels * 24, layers = 2;
  const int64_t elements = (4 * layers + 2) * activation + 3 * labels;
  const std::map<std::string, int64_t> expected = {
      {"all_reduce", elements * 4 * 2 * (world.size() - 1) / world.size()}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(batch); }), expected);
}

}  // namespace

}  // namespace weft::test
