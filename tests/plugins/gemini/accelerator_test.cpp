// Training on an accelerator that the model does not fit into.
#include "device/counting_allocator.hpp"
#include "plugins/gemini/support.hpp"

namespace weft::test {

namespace {

using memory::Pool;

// Parameters, gradients and two moments of a rank are four times as much.
int64_t quarter_of_the_state(const World& world) {
  return 4 * kChunks * kChunkBytes / world.size() / 4;
}

struct Outcome {
  std::vector<double> losses;
  Tensors values;
  int64_t most = 0;                // on the accelerator
  int64_t brought = 0, taken = 0;  // to it and from it, in the last step
};

Outcome train(const World& world, const std::string& members, int64_t limit) {
  const AcceleratorLimit limited(limit);
  const JobOptions options = gemini(std::string(kEvenChunks) + ", " + members);
  memory::reset_peak(Pool::kAccelerator);
  Job job = boost(world, toy(options, kEvenToy), options, "adamw");
  Outcome run;
  for (int64_t step = 0; step < 5; ++step) {
    const int64_t up = memory::pool_use(Pool::kAccelerator).received,
                  down = memory::pool_use(Pool::kHost).received;
    run.losses.push_back(job.train_step(own_part(toy_batch(4, step, false), world)).loss);
    run.brought = memory::pool_use(Pool::kAccelerator).received - up;
    run.taken = memory::pool_use(Pool::kHost).received - down;
  }
  run.values = published_values(job);
  run.most = memory::pool_use(Pool::kAccelerator).peak;
  return run;
}

struct Policy {
  const char* members;
  // How many chunks are on the accelerator at most: a unit's two, the tied one, the one that is being
  // reduced, and those that are gathered ahead. 0: as many as fit into the share of the limit that chunks may
  // take.
  int64_t chunks;
};

class Policies : public testing::TestWithParam<Policy> {};

TEST_P(Policies, TrainAModelOfFourTimesTheAcceleratorToTheSameBits) {
  on_ranks({1, 2}, [&](World& world) {
    const int64_t limit = quarter_of_the_state(world);
    const Outcome unlimited = train(world, "\"placement_policy\": \"static\"", 0);
    EXPECT_GT(unlimited.most, 4 * limit);
    const Outcome limited = train(world, GetParam().members, limit);
    EXPECT_EQ(limited.losses, unlimited.losses);
    expect_equal(limited.values, unlimited.values);
    if (GetParam().chunks > 0) {
      EXPECT_EQ(limited.most, GetParam().chunks * kChunkBytes);
    } else {
      EXPECT_GT(limited.most, limit / 2);
    }
    EXPECT_GT(limited.brought, 0);
    // Gradients go down once.
    EXPECT_EQ(limited.taken, kChunks * kChunkBytes / world.size());
  });
}

INSTANTIATE_TEST_SUITE_P(
    Gemini, Policies,
    testing::Values(
        Policy{R"("placement_policy": "auto", "warmup_non_model_data_ratio": 0.6)", 0},
        Policy{R"("placement_policy": "auto", "warmup_non_model_data_ratio": 0.6, "max_prefetch": 2)", 0},
        Policy{R"("placement_policy": "static", "offload_optim_frac": 1, "offload_param_frac": 1)", 4},
        Policy{R"("placement_policy": "cpu", "max_prefetch": 1)", 5}));

WEFT_RANKS_TEST(AutoPlacement, BringsFewerChunksThanReleasingAfterEachUse, 2) {
  const int64_t limit = 2 * quarter_of_the_state(world);
  const Outcome each = train(world, R"("placement_policy": "cpu")", limit);
  const Outcome by_look_ahead = train(world, R"("placement_policy": "auto")", limit);
  EXPECT_EQ(each.brought, (2 * kChunks - 1) * kChunkBytes / world.size());
  EXPECT_LT(by_look_ahead.brought, each.brought * 9 / 10);
  EXPECT_GE(by_look_ahead.brought, kChunks * kChunkBytes / world.size());
}

// The more activations there are, the fewer chunks stay gathered, and the more are brought again.
WEFT_RANKS_TEST(AutoPlacement, LeavesRoomForWhatComputingTakes, 2) {
  const int64_t limit = 2 * kChunks * kChunkBytes;
  const AcceleratorLimit limited(limit);
  const auto brought = [&](int64_t samples) {
    const JobOptions options = gemini(std::string(kEvenChunks) + R"(, "placement_policy": "auto")");
    Job job = boost(world, toy(options, kEvenToy), options, "adamw");
    const Batch batch = own_part(toy_batch(samples, 1, false), world);
    job.train_step(batch);
    reset_peak_unpooled_bytes();
    const int64_t before = memory::pool_use(Pool::kAccelerator).received, base = unpooled_bytes();
    job.train_step(batch);
    return std::pair{memory::pool_use(Pool::kAccelerator).received - before, peak_unpooled_bytes() - base};
  };
  const auto [few, little] = brought(2);
  const auto [many, much] = brought(24);
  EXPECT_LT(little, limit * 9 / 10 - kChunks * kChunkBytes);
  EXPECT_GT(much, limit * 9 / 10 - kChunks * kChunkBytes);
  EXPECT_EQ(few, kChunks * kChunkBytes / world.size());
  EXPECT_GT(many, few);
}

WEFT_RANKS_TEST(GpuMargin, MovesOptimizerValuesUpAfterTheFirstStep, 2) {
  for (const bool moves : {false, true}) {
    const AcceleratorLimit limit(8 * kChunks * kChunkBytes);
    const int64_t before = memory::pool_use(Pool::kAccelerator).used;
    const JobOptions options =
        gemini(std::string(kEvenChunks) + R"(, "placement_policy": "auto", "gpu_margin_mem_ratio": )" +
               (moves ? "0.1" : "0"));
    Job job = boost(world, toy(options, kEvenToy), options, "adamw");
    const auto ranges = [&] {
      Tensors values = published_values(job);
      return values.size();
    };
    const size_t published = ranges();
    job.train_step(own_part(toy_batch(2, 1, false), world));
    const int64_t held = memory::pool_use(Pool::kAccelerator).used - before;
    if (!moves) {
      EXPECT_EQ(held, 0);
      continue;
    }
    // Values and two moments stay; the gradient was reckoned with.
    EXPECT_GT(held, kChunks * kChunkBytes / 8);
    EXPECT_LE(held, 8 * kChunks * kChunkBytes / 10);
    EXPECT_EQ(ranges(), published);
  }
}

WEFT_RANKS_TEST(AcceleratorLimit, IsAnErrorThatNamesSizesWhereNothingCanBeOffloaded, 2) {
  const AcceleratorLimit limit(quarter_of_the_state(world));
  const JobOptions options = gemini(kEvenChunks);
  const auto run = [&] {
    Job job = boost(world, toy(options, kEvenToy), options, "adamw");
    job.train_step(own_part(toy_batch(2, 1, false), world));
  };
  EXPECT_ERROR(run(), WEFT_RESOURCE_EXHAUSTED, "accelerator memory", "wanted", "in use",
               "WEFT_ACCELERATOR_MEMORY");
}

}  // namespace

}  // namespace weft::test
