// How often the host waits for the simulated accelerator in a step, and the memory that a job takes there.
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

}  // namespace

}  // namespace weft::test
