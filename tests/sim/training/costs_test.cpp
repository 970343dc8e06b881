// How often the host waits for the simulated accelerator in a step, and the memory that a job takes there.
#include "booster/estimate.hpp"
#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "sim/sim_device.hpp"
#include "sim/training/sim_ranks.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

struct Counted {
  int64_t waits = 0, launches = 0, peak = 0;
  friend bool operator==(const Counted&, const Counted&) = default;
};

// Of the third step and of one after it: the first two also compare the ranks (check_agreement).
std::pair<Counted, Counted> steps_of(const World& world, c10::DeviceIndex index, Model model,
                                     const JobOptions& options) {
  Job job = boost(world, std::move(model), options, "adamw");
  const Batch batch = own_part(gpt2_batch(6, 1), job);
  for (int step = 0; step < 2; ++step) job.train_step(batch);
  const auto count = [&] {
    sim::synchronise(index);
    sim::reset_counters(index);
    job.train_step(batch);
    const sim::Counters counters = sim::counters(index);
    return Counted{counters.host_waits, counters.launches, counters.peak_bytes};
  };
  const Counted first = count();
  return {first, count()};
}

Model gpt2_of(const JobOptions& options, int64_t layers) {
  return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4, .layers = layers});
}

// The host reads the loss of all micro-batches at once. Batches go to the device without a wait.
constexpr int64_t kWaits = 1;

TEST(SimWaits, AreOneInAStep) {
  const std::vector<JobOptions> jobs = {
      {.strategy = "torch_ddp"},
      {.strategy = "torch_ddp", .accumulate = 3},
      {.strategy = "torch_fsdp"},
      {.strategy = "torch_fsdp", .recompute = "all"},
      {.strategy = "low_level_zero", .options = R"({"stage": 1})"},
      {.strategy = "low_level_zero", .options = R"({"stage": 2})", .accumulate = 2},
      {.strategy = "gemini"},
      {.strategy = "hybrid_parallel", .options = R"({"zero_stage": 1})"}};
  on_sim_ranks(2, [some = slice("SimWaits", jobs, 4)](World& world) {
    const OnSim sim(world);
    for (const JobOptions& options : some)
      for (const int64_t layers : {1, 3}) {
        SCOPED_TRACE(options.strategy + options.options);
        const auto [first, second] = steps_of(world, sim.index(), gpt2_of(options, layers), options);
        EXPECT_EQ(first.waits, kWaits);
        EXPECT_EQ(second, first);
      }
  });
}

TEST(SimWaits, AreNoMoreWithAShardedVocabulary) {
  on_sim_ranks(2, [](World& world) {
    const OnSim sim(world);
    for (const int64_t micro_batches : {1, 2}) {
      const JobOptions options = {
          .strategy = "hybrid_parallel", .options = R"({"tp_size": 2})", .accumulate = micro_batches};
      const auto [first, second] = steps_of(world, sim.index(), gpt2_of(options, 2), options);
      EXPECT_EQ(first.waits, world.rank() == 0 ? kWaits : 0);  // one rank of the axis reports the loss
      EXPECT_EQ(second, first);
    }
  });
}

TEST(SimWaits, AreNoMoreWithClippingAndDropout) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const auto waits = [&](double dropout, double max_norm) {
      const TinyGpt2 gpt2{.width = 16, .heads = 4, .layers = 2, .dropout = dropout};
      const JobOptions options = {.strategy = "none", .max_grad_norm = max_norm};
      return steps_of(world, sim.index(), tiny_gpt2(gpt2), options).second.waits;
    };
    EXPECT_EQ(waits(0, 0), kWaits);
    EXPECT_EQ(waits(0.1, 0), kWaits);
    EXPECT_EQ(waits(0, 1), kWaits);
  });
}

// What `weft plan` prints, against what the device counts.
TEST(SimMemory, IsWhatThePlanSays) {
  const std::vector<JobOptions> jobs = {
      {.strategy = "torch_ddp"},
      {.strategy = "torch_fsdp", .precision = "bf16"},
      {.strategy = "low_level_zero", .options = R"({"stage": 2})"},
      {.strategy = "low_level_zero", .options = R"({"stage": 1, "cpu_offload": true})"},
      {.strategy = "gemini", .options = R"({"chunk_config_dict": {"chunk_size": 37440}})"}};
  on_sim_ranks(2, [some = slice("SimMemory", jobs, 2)](World& world) {
    const OnSim sim(world);
    for (const JobOptions& options : some) {
      SCOPED_TRACE(options.strategy + options.options);
      expect_estimate_is_counted(world, options);
    }
  });
}

// Of state, gradients under way and activations. The plan counts what backward needs all at once, so it is a
// little more; of a pipeline stage it does not count the inputs that arrive early.
TEST(SimMemory, HasThePeakThatThePlanSays) {
  constexpr int64_t kSamples = 8, kLength = 64;  // of a rank
  const std::string chunks = R"("chunk_config_dict": {"chunk_size": 50000})",
                    buckets = R"("stage": 2, "reduce_bucket_size_in_m": 0.05)";
  const std::vector<JobOptions> jobs = {
      {.strategy = "none"},
      {.strategy = "none", .recompute = "all"},
      {.strategy = "none", .precision = "bf16"},
      {.strategy = "torch_ddp"},
      {.strategy = "torch_fsdp"},
      {.strategy = "torch_fsdp", .precision = "bf16"},
      {.strategy = "torch_fsdp", .options = R"({"cpu_offload": true, "forward_prefetch": true})"},
      {.strategy = "torch_fsdp", .options = R"({"sharding_strategy": "SHARD_GRAD_OP"})"},
      {.strategy = "low_level_zero", .options = R"({"stage": 1})"},
      {.strategy = "low_level_zero", .options = "{" + buckets + "}"},
      {.strategy = "low_level_zero", .options = "{" + buckets + R"(, "cpu_offload": true})"},
      {.strategy = "gemini"},
      {.strategy = "gemini", .options = "{" + chunks + "}"},
      {.strategy = "gemini", .options = "{" + chunks + R"(, "placement_policy": "cpu", "pin_memory": true})"},
      {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})"},
      {.strategy = "hybrid_parallel", .options = R"({"pp_size": 2, "num_microbatches": 2})"},
      {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2, "enable_sequence_parallelism": true,
                      "sequence_parallelism_mode": "split_gather"})"}};
  for (const JobOptions& options : slice("SimMemory peak", jobs, 4)) {
    SCOPED_TRACE(options.strategy + options.options + options.precision);
    on_sim_ranks(options.strategy == "none" ? 1 : 2, [&](World& world) {
      const OnSim sim(world);
      const auto model = [&] {
        return tiny_gpt2(
            {.precision = options.precision, .width = 64, .heads = 4, .positions = kLength, .layers = 8});
      };
      const BoosterOptions booster = booster_options_of(options);
      const auto stage = static_cast<uint32_t>(num_stages(booster) > 1 ? world.rank() : 0);
      const std::optional<weft_job_estimate> estimate = estimate_job(model(), booster, world.size(), stage);
      const std::optional<int64_t> activations =
          activation_bytes(model(), booster, {kSamples, kLength}, stage);
      ASSERT_TRUE(estimate && activations);
      const auto planned =
          static_cast<double>(estimate->parameters + estimate->gradients + estimate->masters +
                              estimate->states + estimate->transient - estimate->host + *activations);
      const int64_t before = sim::counters(sim.index()).bytes_in_use;
      Job job = boost(world, model(), options, "adamw");
      const bool data_parallel = options.strategy != "hybrid_parallel";
      const at::Tensor ids =
          at::randint(23, {kSamples * (data_parallel ? world.size() : 1), kLength}, at::kLong);
      const Batch batch = own_part({{"input_ids", ids}, {"labels", ids}}, job);
      for (int step = 0; step < 2; ++step) job.train_step(batch);
      sim::synchronise(sim.index());
      sim::reset_counters(sim.index());
      job.train_step(batch);
      const double ratio = static_cast<double>(sim::counters(sim.index()).peak_bytes - before) / planned;
      EXPECT_GT(ratio, 0.85);
      EXPECT_LT(ratio, 1.05);
    });
  }
}

}  // namespace

}  // namespace weft::test
