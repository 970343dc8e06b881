// The options of the data axis, by their effect, mostly beside a tensor axis.
#include <fmt/format.h>

#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "plugins/support/pools.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

JobOptions hybrid(const std::string& options, const std::string& precision = "fp32") {
  return {.strategy = "hybrid_parallel", .options = options, .precision = precision};
}

JobOptions zero(int64_t stage, const std::string& more = "", const std::string& precision = "fp32") {
  return hybrid(fmt::format(R"({{"tp_size": 2, "zero_stage": {}{}}})", stage, more), precision);
}

// tests/host/strategy_options_test.cpp has them all.
TEST(DataAxis, RefusesTheOptionsOfTheOtherStage) {
  EXPECT_ERROR(boost(one_rank(), toy(), hybrid(R"({"zero_stage": 1, "ddp_bucket_cap_mb": 25})")),
               WEFT_INVALID_ARGUMENT, "hybrid_parallel: ddp_bucket_cap_mb", "no effect", "zero_stage is 1");
  EXPECT_ERROR(boost(one_rank(), toy(), hybrid(R"({"overlap_communication": true})")), WEFT_INVALID_ARGUMENT,
               "strategy hybrid_parallel: overlap_communication", "zero_stage 1 or 2", "zero_stage is 0");
}

TEST(DataAxis, TakesTheOptionsOfItsStage) {
  const Trial trial = {.tolerance = 5e-5, .model = [](const JobOptions& options) {
                         return tiny_gpt2(TinyGpt2{.precision = options.precision, .heads = 4});
                       }};
  for (const char* options :
       {R"({"tp_size": 2, "ddp_bucket_cap_mb": 0.0001, "gradient_as_bucket_view": true})",
        R"({"tp_size": 2, "find_unused_parameters": true, "check_reduction": true})",
        R"({"tp_size": 2, "static_graph": true, "broadcast_buffers": false})",
        R"({"tp_size": 2, "zero_stage": 1, "zero_bucket_size_in_m": 0.0001, "overlap_allgather": true})",
        R"({"tp_size": 2, "zero_stage": 2, "overlap_communication": false, "communication_dtype": "fp64"})"})
    expect_gradients_of_one_rank(hybrid(options), {4}, trial);
}

TEST(DataAxis, LiesOutsideOfTheOthersUnlessStagesDo) {
  EXPECT_ERROR(boost(one_rank(), toy(), hybrid(R"({"dp_outside": false})")), WEFT_INVALID_ARGUMENT,
               "dp_outside", "no effect", "pp_size above 1");
  on_ranks({4}, [](World& world) {
    const auto data_rank = [&](const char* options) {
      return boost(world, tiny_gpt2(TinyGpt2{.heads = 4}), hybrid(options))
          .model.shared()
          .bindings()
          .mesh()
          .data_rank();
    };
    const auto rank = static_cast<uint32_t>(world.rank());
    EXPECT_EQ(data_rank(R"({"tp_size": 2})"), rank / 2);
    EXPECT_EQ(data_rank(R"({"pp_size": 2})"), rank / 2);
    EXPECT_EQ(data_rank(R"({"pp_size": 2, "dp_outside": true})"), rank / 2);
    EXPECT_EQ(data_rank(R"({"pp_size": 2, "dp_outside": false})"), rank % 2);
  });
}

PlacedBytes placed(const World& world, const JobOptions& options) {
  return placed_bytes(world, tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 192, .heads = 4}),
                      gpt2_batch(2, 1), options);
}

// On the accelerator the values of the rank's part by the tensor axis; on the host gradients, masters and two
// moments of half of it, as there are two data-parallel ranks.
WEFT_RANKS_TEST(HybridCpuOffload, LeavesTheAcceleratorNothingButTheValues, 4) {
  for (const BytesOfAnElement& formula : kPrecisions)
    for (const int64_t stage : {1, 2}) {
      const JobOptions options = zero(stage, R"(, "cpu_offload": true)", formula.precision);
      const PlacedBytes bytes = placed(world, options);
      const double part = bytes.elements / 2;
      expect_bytes(bytes.accelerator, formula.value * bytes.elements, options.options);
      expect_bytes(bytes.host, formula.offloaded() * part, options.options);
      // Updated parts come up and sums go down once.
      expect_bytes(bytes.brought, formula.value * part, options.options);
      expect_bytes(bytes.taken, formula.value * part, options.options);
    }
}

WEFT_RANKS_TEST(HybridCpuOffload, OffHasAllOnTheAccelerator, 4) {
  const PlacedBytes bytes = placed(world, zero(2));
  EXPECT_EQ(bytes.host, 0);
  EXPECT_EQ(bytes.brought + bytes.taken, 0);
  expect_bytes(bytes.accelerator, (4 + 12. / 2) * bytes.elements, "stage 2");
}

TEST(HybridCpuOffload, ChangesNoBit) {
  for (const int64_t stage : {1, 2}) {
    expect_same_bits(zero(stage, R"(, "cpu_offload": true)"), zero(stage), {2, 4});
    expect_same_bits(zero(stage, R"(, "cpu_offload": true, "max_norm": 0.05)", "bf16"),
                     zero(stage, R"(, "max_norm": 0.05)", "bf16"), {4});
  }
}

TEST(HybridMasterWeights, WithoutThemEveryUpdateIsRounded) {
  for (const int64_t stage : {0, 1, 2}) {
    const auto options = [&](const char* masters) {
      return hybrid(fmt::format(R"({{"zero_stage": {}, "master_weights": {}}})", stage, masters), "bf16");
    };
    expect_rules_without_masters(options("false"), options("true"), {2});
  }
}

// 1.001 is 1 in bf16, which makes the toy skip a block.
TEST(HybridCastInputs, CastsThemUnlessTold) {
  for (const bool casts : {true, false}) {
    const JobOptions options = hybrid(fmt::format(R"({{"cast_inputs": {}}})", casts), "bf16");
    const auto module = make_toy("", at::kBFloat16);
    Job job = boost(one_rank(), Model::adopt(module), options);
    Batch batch = toy_batch(2, 1);
    const at::Tensor whole = job.forward(batch).at("logits");
    batch.set("skip", at::full({2}, 1.001));
    EXPECT_EQ(job.forward(batch).at("logits").equal(whole), !casts);
  }
}

WEFT_RANKS_TEST(HybridBroadcastBuffers, TakesThoseOfTheFirstDataParallelRank, 2) {
  for (const bool on : {true, false}) {
    const auto module = make_toy();
    Job job = boost(world, Model::adopt(module), hybrid(fmt::format(R"({{"broadcast_buffers": {}}})", on)));
    module->scale().fill_(2.0 + world.rank());
    job.forward(toy_batch(2, 1));
    EXPECT_EQ(module->scale().item<double>(), on ? 2.0 : 2.0 + world.rank());
  }
}

// One data axis of two for each tensor-parallel rank; the second of both updates with its own gradients.
WEFT_RANKS_TEST(HybridCheckReduction, CatchesAnUpdateWithGradientsThatWereNeverSummed, 4) {
  for (const bool check : {false, true}) {
    Job job = boost(world, tiny_gpt2(TinyGpt2{.heads = 4}),
                    hybrid(check ? R"({"tp_size": 2, "check_reduction": true})" : R"({"tp_size": 2})"));
    // The host itself compares the ranks in the first two steps.
    for (int step = 0; step < 3; ++step) job.train_step(gpt2_batch(2, 1));
    job.accumulate_gradients(gpt2_batch(2, 2 + world.rank() / 2), false);
    job.optimizer.step();
    job.optimizer.zero_grad();
    const auto next = [&] { job.train_step(gpt2_batch(2, 3)); };
    if (check)
      EXPECT_ERROR(next(), WEFT_FAILED_PRECONDITION, "hybrid_parallel: check_reduction", "never summed");
    else
      next();
  }
}

WEFT_RANKS_TEST(HybridCheckReduction, CatchesARankThatSkippedABackward, 2) {
  const JobOptions options = hybrid(R"({"check_reduction": true})");
  Job job = boost(world, toy(options, "\"gated\": false"), options);
  Booster booster({.strategy = "hybrid_parallel"}, world);
  const auto loss = [&](int64_t seed) { return job.model(toy_batch(2, seed)).at("logits").square().mean(); };
  booster.backward(loss(1), job.optimizer);
  const at::Tensor second = loss(2);
  EXPECT_ERROR(world.rank() == 1 ? (void)loss(3) : booster.backward(second, job.optimizer),
               WEFT_FAILED_PRECONDITION, "hybrid_parallel: check_reduction", "ranks disagree");
}

}  // namespace

}  // namespace weft::test
