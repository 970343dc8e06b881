// Placement of tensors in host memory beside a device that the host cannot read.
#include <array>

#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "plugins/support/pools.hpp"
#include "sim/sim_device.hpp"
#include "sim/training/sim_ranks.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

constexpr int64_t kEmbedding = 192 * 192, kElements = 24 * kEvenBlock + kEmbedding;  // of the toy

struct Offload {
  const char* strategy;
  std::string plain, offloading;  // options
  bool leaves_nothing;            // on the device between steps

  // gemini keeps what it offloads in memory that is not page-locked unless it is asked to.
  bool locks_pages() const {
    return strategy != std::string("gemini") || offloading.find("pin_memory") != std::string::npos;
  }
};

const Offload kOffloads[] = {
    {"torch_fsdp", "{}", R"({"cpu_offload": true})", true},
    {"torch_fsdp", R"({"sharding_strategy": "SHARD_GRAD_OP"})",
     R"({"sharding_strategy": "SHARD_GRAD_OP", "cpu_offload": true})", true},
    {"low_level_zero", R"({"stage": 1})", R"({"stage": 1, "cpu_offload": true})", false},
    {"low_level_zero", R"({"stage": 2})", R"({"stage": 2, "cpu_offload": true})", false},
    {"hybrid_parallel", R"({"zero_stage": 1, "tp_size": 2})",
     R"({"zero_stage": 1, "tp_size": 2, "cpu_offload": true})", false},
    {"gemini", "{}", R"({"placement_policy": "static", "offload_optim_frac": 1})", false},
    {"gemini", "{}", R"({"placement_policy": "static", "offload_optim_frac": 1, "offload_param_frac": 1})",
     true},
    {"gemini", "{}", R"({"placement_policy": "static", "offload_optim_frac": 1, "pin_memory": true})", false},
    {"gemini", "{}", R"({"placement_policy": "auto"})", true}};

JobOptions options_of(const Offload& offload, const std::string& options, const std::string& precision) {
  return {.strategy = offload.strategy, .options = options, .precision = precision};
}

TEST(SimOffload, ChangesNoBit) {
  for (const size_t i : draw_slice("SimOffload", std::size(kOffloads), 4)) {
    const Offload& offload = kOffloads[i];
    const std::string precision = i % 2 == 0 ? "fp32" : "bf16";
    SCOPED_TRACE(offload.offloading);
    on_sim_ranks(2, [&](World& world) {
      const OnSim sim(world);
      expect_same_bits(world, options_of(offload, offload.offloading, precision),
                       options_of(offload, offload.plain, precision), /*steps=*/4);
    });
  }
}

struct Step {
  sim::Counters counted;
  double time;  // in microseconds, the mean of three steps
};

Step step_of(const World& world, const OnSim& sim, const JobOptions& options) {
  Job job = boost(world, toy(options, kEvenToy), options, "adamw");
  const Batch batch = own_part(toy_batch(world.size(), 1, false), job);
  for (int step = 0; step < 2; ++step) job.train_step(batch);  // they also compare the ranks
  sim::synchronise(sim.index());
  sim::reset_counters(sim.index());
  const double before = sim::host_time(sim.index());
  job.train_step(batch);
  const sim::Counters counted = sim::counters(sim.index());
  for (int step = 0; step < 2; ++step) job.train_step(batch);
  sim::synchronise(sim.index());
  return {counted, (sim::host_time(sim.index()) - before) / 3};
}

// Beside what a step copies that offloads nothing. Gradients go to the host once. Values come back once,
// under FULL_SHARD once more for backward, but for those of the embedding, whose backward reads none. The
// host waits once, for all gradients; without page-locked memory it waits for each copy, here of one chunk.
TEST(SimOffload, CopiesAndWaitsByItsFormula) {
  std::vector<Offload> all(std::begin(kOffloads), std::end(kOffloads));
  std::erase_if(all,
                [](const Offload& offload) { return offload.plain.find("tp_size") != std::string::npos; });
  on_sim_ranks(2, [&](World& world) {
    const OnSim sim(world);
    for (const Offload& offload : slice("SimOffload bytes", all, 4)) {
      SCOPED_TRACE(offload.strategy + offload.offloading);
      const sim::Counters plain = step_of(world, sim, options_of(offload, offload.plain, "fp32")).counted;
      const sim::Counters counted =
          step_of(world, sim, options_of(offload, offload.offloading, "fp32")).counted;
      const bool twice = offload.strategy == std::string("torch_fsdp") &&
                         offload.offloading.find("SHARD_GRAD_OP") == std::string::npos;
      const int64_t again = twice ? kElements - kEmbedding : 0;
      EXPECT_EQ(counted.bytes_to_device - plain.bytes_to_device, 4 * (kElements + again) / world.size());
      EXPECT_EQ(counted.bytes_to_host - plain.bytes_to_host, 4 * kElements / world.size());
      EXPECT_EQ(counted.host_waits - plain.host_waits, offload.locks_pages() ? 1 : 2);
    }
  });
}

// Stage 2 sums the gradients of each micro-batch. A sum that is there is brought, added to and taken back.
TEST(SimOffload, AccumulatesWithoutAnotherWait) {
  on_sim_ranks(2, [](World& world) {
    const OnSim sim(world);
    const auto offload = [&](int64_t micro_batches) {
      const Offload& stage_2 = kOffloads[3];
      JobOptions plain = options_of(stage_2, stage_2.plain, "fp32"),
                 offloading = options_of(stage_2, stage_2.offloading, "fp32");
      plain.accumulate = offloading.accumulate = micro_batches;
      const sim::Counters without = step_of(world, sim, plain).counted,
                          with = step_of(world, sim, offloading).counted;
      return std::array{with.host_waits - without.host_waits, with.bytes_to_device - without.bytes_to_device,
                        with.bytes_to_host - without.bytes_to_host};
    };
    const int64_t part = 4 * kElements / world.size();
    EXPECT_EQ(offload(1), (std::array<int64_t, 3>{1, part, part}));
    EXPECT_EQ(offload(2), (std::array<int64_t, 3>{1, 2 * part, 2 * part}));
  });
}

// With a slow bus, of which a step that copied and computed by turns would need the whole time in addition.
TEST(SimOffload, CopiesWhileTheDeviceComputes) {
  const std::string pieces = R"("chunk_config_dict": {"chunk_size": 37440}, "placement_policy": "static")";
  const Offload offloads[] = {
      {"torch_fsdp", "{}", R"({"cpu_offload": true, "forward_prefetch": true})", true},
      {"low_level_zero", R"({"reduce_bucket_size_in_m": 0.05, "overlap_allgather": true})",
       R"({"reduce_bucket_size_in_m": 0.05, "overlap_allgather": true, "cpu_offload": true})", false},
      {"gemini", "{" + pieces + "}",
       "{" + pieces + R"(, "offload_optim_frac": 1, "pin_memory": true, "max_prefetch": 1})", false}};
  constexpr double kBytesPerMicrosecond = 1e4;
  on_sim_ranks(1, [&](World& world) {
    const OnSim sim(world);
    sim::set_costs({.launch = 0.1, .kernel = 4, .bus_bytes_per_us = kBytesPerMicrosecond});
    for (const Offload& offload : offloads) {
      SCOPED_TRACE(offload.strategy);
      const Step plain = step_of(world, sim, options_of(offload, offload.plain, "fp32")),
                 offloading = step_of(world, sim, options_of(offload, offload.offloading, "fp32"));
      const auto bytes = offloading.counted.bytes_to_device + offloading.counted.bytes_to_host -
                         plain.counted.bytes_to_device - plain.counted.bytes_to_host;
      EXPECT_GT(bytes, 7e6);
      const double alone = static_cast<double>(bytes) / kBytesPerMicrosecond;
      EXPECT_LT(offloading.time - plain.time, 0.5 * alone);
    }
    sim::set_costs({});
  });
}

TEST(SimOffload, LeavesTheDeviceNothingBetweenStepsIfItTakesAll) {
  std::vector<Offload> all(std::begin(kOffloads), std::end(kOffloads));
  std::erase_if(all, [](const Offload& offload) { return !offload.leaves_nothing; });
  all = slice("SimOffload of all", all, 2);
  on_sim_ranks(2, [&](World& world) {
    const OnSim sim(world);
    for (const Offload& offload : all) {
      SCOPED_TRACE(offload.strategy + offload.offloading);
      const int64_t before = sim::counters(sim.index()).bytes_in_use;
      const JobOptions options = options_of(offload, offload.offloading, "fp32");
      Job job = boost(world, toy(options, kEvenToy), options, "adamw");
      const Batch batch = own_part(toy_batch(world.size(), 1, false), job);
      for (int step = 0; step < 2; ++step) job.train_step(batch);  // they also compare the ranks
      sim::reset_counters(sim.index());
      job.train_step(batch);
      const sim::Counters counted = sim::counters(sim.index());
      EXPECT_EQ(counted.bytes_in_use, before);
      // Each value is brought to the device at least once, and each sum of gradients goes back once.
      const int64_t part = 4 * job.model.num_elements() / world.size();
      EXPECT_GE(counted.bytes_to_device, part);
      EXPECT_GE(counted.bytes_to_host, part);
      EXPECT_LT(counted.bytes_to_host, part + part / 4);
    }
  });
}

TEST(SimOffload, GeminiTrainsAModelThatTheDeviceHasNoRoomFor) {
  on_sim_ranks(2, [](World& world) {
    const OnSim sim(world);
    const std::string chunks = R"("chunk_config_dict": {"chunk_size": 37440})";
    const JobOptions fits = {.strategy = "gemini",
                             .options = "{" + chunks + R"(, "placement_policy": "cpu"})"},
                     exceeds = {.strategy = "gemini", .options = "{" + chunks + "}"};
    const int64_t state = 16 * 25 * kEvenBlock / world.size();
    expect_only_fits(world, fits, exceeds, state / 4);
  });
}

TEST(SimCapacity, IsAnErrorThatNamesTheDeviceAndTheBytes) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    sim::set_capacity(sim.index(), 1 << 20);
    try {
      const JobOptions options = {.strategy = "none"};
      boost(world, toy(options, kEvenToy), options);
      ADD_FAILURE() << "the model fits into 1 MiB";
    } catch (const std::exception& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("out of memory"), std::string::npos) << text;
      EXPECT_NE(text.find("sim:" + std::to_string(sim.index())), std::string::npos) << text;
    }
    sim::set_capacity(sim.index(), int64_t{8} << 30);
  });
}

// As a user limits it: of all memory of the device, also that of activations.
TEST(SimCapacity, IsLimitedByTheEnvironmentUnderEveryStrategy) {
  const char* const strategies[] = {"none", "torch_ddp", "torch_fsdp", "low_level_zero", "gemini"};
  for (const size_t i : draw_slice("SimCapacity", std::size(strategies), 2))
    on_sim_ranks(1, [&](World& world) {
      const OnSim sim(world);
      const JobOptions options = {.strategy = strategies[i]};
      const auto train = [&] {
        Job job = boost(world, toy(options, kEvenToy), options, "adamw");
        for (int step = 0; step < 3; ++step) job.train_step(toy_batch(1, step, false));
      };
      const auto limit = [&](int64_t bytes) {
        setenv("WEFT_ACCELERATOR_MEMORY", std::to_string(bytes).c_str(), 1);
        device::limit_memory(device::current());
      };
      train();
      const int64_t most = sim::counters(sim.index()).peak_bytes;
      limit(most);
      train();
      EXPECT_EQ(sim::counters(sim.index()).peak_bytes, most);
      limit(most - most / 8);
      try {
        train();
        ADD_FAILURE() << options.strategy << " trains with less memory than it took";
      } catch (const std::exception& error) {
        EXPECT_NE(std::string(error.what()).find("out of memory"), std::string::npos) << error.what();
      }
      unsetenv("WEFT_ACCELERATOR_MEMORY");
      sim::set_capacity(sim.index(), int64_t{8} << 30);
    });
}

}  // namespace

}  // namespace weft::test
