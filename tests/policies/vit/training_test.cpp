// Training of models of images against one rank.
#include "plugins/support/bytes.hpp"
#include "policies/vit/trials.hpp"

namespace weft::test {

namespace {

JobOptions under(const std::string& strategy, const std::string& options, const std::string& precision,
                 const std::string& recompute = "off") {
  return {.strategy = strategy, .options = options, .recompute = recompute, .precision = precision};
}

class VitTraining : public testing::TestWithParam<const char*> {};

TEST_P(VitTraining, HasTheGradientsOfOneRank) {
  expect_gradients_of_one_rank({{under(GetParam(), "{}", "fp64"), vit_trial(kImages)},
                                {under(GetParam(), "{}", "fp64", "all"), vit_trial(kMaskedImages)},
                                {under(GetParam(), "{}", "fp64"), vit_trial(kLargerImages)},
                                {under(GetParam(), R"({"tp_size": 2})", "fp64"), vit_trial(kImages)}},
                               4);
}

INSTANTIATE_TEST_SUITE_P(Strategies, VitTraining,
                         testing::Values("torch_ddp", "low_level_zero", "torch_fsdp", "gemini"),
                         [](const auto& info) { return std::string(info.param); });

TEST(VitTensorParallel, HasTheGradientsOfOneRank) {
  for (const int ranks : {2, 4}) {
    const std::string options = fmt::format(R"({{"tp_size": {}}})", ranks);
    const auto with = [&](const char* precision) { return under("hybrid_parallel", options, precision); };
    expect_gradients_of_one_rank({{with("fp64"), vit_trial(kImages)},
                                  {with("fp64"), vit_trial(kMaskedImages)},
                                  {with("fp64"), vit_trial(kLargerImages)},
                                  {with("fp32"), vit_trial(kImages, "fp32")}},
                                 ranks);
  }
}

TEST(VitTensorParallel, TrainsAsOneRankBesideDataParallelism) {
  JobOptions chosen = under("hybrid_parallel", R"({"tp_size": 2, "zero_stage": 1})", "fp32", "all");
  chosen.max_grad_norm = 0.5;
  chosen.accumulate = 2;
  expect_steps_of_one_rank(chosen, {4}, vit_trial(kWithoutBiases, "fp32"));
}

TEST(VitTensorParallel, HasTheGradientsOfOneRankUnderACriterionOfBothOutputs) {
  const Tensors expected = vit_criterion_gradients(one_rank(), under("none", "{}", "fp64"));
  on_ranks({2}, [&](World& world) {
    expect_near(vit_criterion_gradients(world, under("hybrid_parallel", R"({"tp_size": 2})", "fp64")),
                expected, 1e-10);
  });
}

// An all-reduce of two activations in forward and two in backward for each block, and nothing for embeddings
// and head, which are replicated.
WEFT_RANKS_TEST(VitTensorParallel, AStepSendsWhatItsBlocksSplit, 2, 4) {
  const JobOptions options =
      under("hybrid_parallel", fmt::format(R"({{"tp_size": {}}})", world.size()), "fp32");
  Job job = boost(world, tiny_vit(options, kImages), options);
  const int64_t activation = 3 * 7 * 12, blocks = 2;
  const std::map<std::string, int64_t> expected = {
      {"all_reduce", 4 * blocks * activation * 4 * 2 * (world.size() - 1) / world.size()}};
  EXPECT_EQ(sent_bytes([&] { job.accumulate_gradients(vit_batch(kImages, 3, 1)); }), expected);
}

}  // namespace

}  // namespace weft::test
