// What `weft plan` says of tensor and sequence axes and of plain forms, against what a rank then holds.
#include "booster/estimate.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "device/counting_allocator.hpp"
#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

constexpr int64_t kSamples = 4, kPositions = 64;

Model model() {
  return tiny_gpt2(TinyGpt2{.width = 64, .heads = 4, .positions = kPositions});
}

BoosterOptions with(const std::string& options) {
  return {.strategy = "hybrid_parallel", .options = "{" + options + "}"};
}

std::string in_mode(const char* mode, const char* axes) {
  return fmt::format(R"({}, "enable_sequence_parallelism": true, "sequence_parallelism_mode": "{}")", axes,
                     mode);
}

struct Held {
  int64_t activations = 0, state = 0;
};

// Rank 0's, which has most.
Held held_by(const World& world, const BoosterOptions& options) {
  const int64_t before = allocated_bytes();
  Model made = model();
  Booster booster(options, world);
  Job job = booster.boost(made, optim::AdamW(made.parameters()));
  const at::Tensor ids = at::randint(23, {kSamples, kPositions}, at::kLong);
  const Batch batch = {{"input_ids", ids}, {"labels", ids}};
  for (int step = 0; step < 2; ++step) job.train_step(batch);
  Held held;
  job.accumulate_gradients(batch);
  held.state = allocated_bytes() - before;
  job.optimizer.zero_grad();
  const int64_t idle = allocated_bytes();
  const State outputs = job.model({{"input_ids", ids}});
  held.activations = allocated_bytes() - idle;
  return held;
}

TEST(Estimate, IsWhatARankOfTheAxesHolds) {
  const std::string plain = R"("enable_fused_normalization": false, "enable_jit_fused": false)";
  on_ranks({2}, [&](World& world) {
    count_memory();
    for (const std::string& options :
         {std::string(R"("tp_size": 2)"), std::string(R"("zero_stage": 2)"),
          in_mode("split_gather", R"("tp_size": 2)"), in_mode("ring", R"("tp_size": 2)"),
          in_mode("all_to_all", R"("sp_size": 2, "zero_stage": 1)"), in_mode("ring_attn", R"("sp_size": 2)"),
          R"("tp_size": 2, )" + plain}) {
      SCOPED_TRACE(options);
      const Held held = held_by(world, with(options));
      if (world.rank() != 0) continue;
      const MicroBatchShape shape{kSamples, kPositions};
      const auto activations = activation_bytes(model(), with(options), shape);
      const auto state = estimate_job(model(), with(options), 2);
      ASSERT_TRUE(activations && state);
      EXPECT_NEAR(static_cast<double>(*activations) / static_cast<double>(held.activations), 1, 0.1);
      const int64_t sum = state->parameters + state->gradients + state->masters + state->states;
      EXPECT_NEAR(static_cast<double>(sum) / static_cast<double>(held.state), 1, 0.1);
    }
    world.communicator().barrier();
  });
}

TEST(Estimate, CountsTheParametersOfAStage) {
  on_ranks({2}, [&](World& world) {
    for (const char* style : {"1f1b", "interleaved", "zbv"}) {
      SCOPED_TRACE(style);
      const BoosterOptions options = with(fmt::format(R"("pp_size": 2, "pp_style": "{}")", style));
      Model made = model();
      Booster booster(options, world);
      const Job job = booster.boost(made, optim::AdamW(made.parameters()));
      int64_t elements = 0;
      for (const auto& param : job.model.shared().bindings().params()) elements += param->count();
      const auto stage = static_cast<uint32_t>(world.rank());
      EXPECT_EQ(estimate_job(model(), options, 2, stage)->parameters, 4 * elements);
    }
    world.communicator().barrier();
  });
  EXPECT_ERROR(estimate_job(model(), with(R"("pp_size": 2, "zero_stage": 2)"), 2), WEFT_UNIMPLEMENTED,
               "zero_stage is 2 with pp_size 2");
  EXPECT_ERROR(estimate_job(model(), with(R"("pp_size": 2, "tp_size": 2)"), 6), WEFT_INVALID_ARGUMENT,
               "tp_size 2 x pp_size 2", "the 6 ranks");
}

int64_t activations_of(uint32_t stage, const std::string& options, int64_t samples) {
  return *activation_bytes(model(), with(options), {samples, kPositions}, stage);
}

// 1f1b keeps as many micro-batches as there are stages from this one on, gpipe all.
TEST(Estimate, CountsTheMicroBatchesThatAStageKeepsAtOnce) {
  const auto bytes = [](const char* more, int64_t samples, uint32_t stage) {
    return activations_of(stage, std::string(R"("pp_size": 2)") + more, samples);
  };
  const int64_t one = bytes(R"(, "num_microbatches": 1)", 1, 0);
  EXPECT_EQ(bytes(R"(, "num_microbatches": 4)", 4, 0), 2 * one);
  EXPECT_EQ(bytes(R"(, "num_microbatches": 4, "pp_style": "gpipe")", 4, 0), 4 * one);
  EXPECT_EQ(bytes(R"(, "microbatch_size": 1)", 4, 0), 2 * one);
  EXPECT_EQ(bytes("", 4, 0), bytes(R"(, "num_microbatches": 2)", 4, 0));
  EXPECT_EQ(bytes(R"(, "num_microbatches": 4)", 4, 1), bytes(R"(, "num_microbatches": 1)", 1, 1));
}

// Four stages of one chunk run the same units as two stages of two chunks each.
TEST(Estimate, CountsTheActivationsOfEachChunk) {
  std::vector<int64_t> part;
  for (uint32_t stage = 0; stage < 4; ++stage)
    part.push_back(activations_of(stage, R"("pp_size": 4, "num_microbatches": 1)", 1));
  const auto bytes = [](int64_t micro_batches, uint32_t stage) {
    return activations_of(
        stage,
        fmt::format(R"("pp_size": 2, "pp_style": "interleaved", "num_microbatches": {})", micro_batches),
        micro_batches);
  };
  EXPECT_EQ(bytes(1, 0), part[0] + part[2]);
  EXPECT_EQ(bytes(1, 1), part[1] + part[3]);
  // Stage 0 runs F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 ...
  EXPECT_EQ(bytes(4, 0), std::max(3 * part[0] + 2 * part[2], 4 * part[0] + part[2]));
  const auto in_vee = [](uint32_t stage) {
    return activations_of(stage, R"("pp_size": 2, "pp_style": "zbv", "num_microbatches": 1)", 1);
  };
  EXPECT_EQ(in_vee(0), part[0] + part[3]);
  EXPECT_EQ(in_vee(1), part[1] + part[2]);
}

// The first stage has both layers, and keeps two micro-batches.
TEST(Estimate, CountsTheInputsOfRecomputedLayers) {
  const auto bytes = [](const std::string& more, uint32_t stage = 0) {
    return activations_of(stage,
                          R"("pp_size": 2, "num_layers_per_stage": [2, 0], "num_microbatches": 4)" + more, 4);
  };
  const int64_t kept = bytes(""),
                half = bytes(R"(, "gradient_checkpoint_config": {"gradient_checkpointing_ratio": 0.5})"),
                none = bytes(R"(, "gradient_checkpoint_config": {"gradient_checkpointing_ratio": 1})");
  EXPECT_LT(half, kept);
  EXPECT_LT(none, half);
  const char* const by_number = R"(, "gradient_checkpoint_config": {"num_ckpt_layers_per_stage": [2, 0]})";
  EXPECT_EQ(bytes(by_number), none);
  EXPECT_EQ(bytes(by_number, 1), bytes("", 1));
}

TEST(Estimate, HasNoneOfAttentionStepByStep) {
  const TemporaryFolder folder;
  const std::string policy = folder.file("policy.json", R"({"name": "forbidding", "entries": [
      {"on": "h.0.attn", "operation": "weft.attention/1", "flash": false}]})");
  for (const std::string& options :
       {std::string(R"("enable_flash_attention": false)"), R"("custom_policy": ")" + policy + "\""})
    EXPECT_ERROR(activation_bytes(model(), with(options), {1, 8}), WEFT_UNIMPLEMENTED,
                 "enable_flash_attention false", "a policy");
}

TEST(Estimate, LeavesTheModelAsItWas) {
  const Model whole = model();
  const auto before = activation_bytes(whole, with(""), {kSamples, kPositions});
  estimate_job(whole, with(R"("tp_size": 2)"), 4);
  EXPECT_LT(activation_bytes(whole, with(R"("tp_size": 2)"), {kSamples, kPositions}), before);
  EXPECT_EQ(activation_bytes(whole, with(""), {kSamples, kPositions}), before);
  EXPECT_ERROR(estimate_job(whole, with(R"("tp_size": 4)"), 6), WEFT_INVALID_ARGUMENT, "tp_size 4",
               "the 6 ranks");
}

}  // namespace

}  // namespace weft::test
