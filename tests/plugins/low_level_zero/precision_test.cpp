// Half precision, the scale of the loss, and clipping, which the host performs, under low_level_zero.
#include "opening/model_state.hpp"
#include "plugins/low_level_zero/support.hpp"

namespace weft::test {

namespace {

class Precision : public testing::TestWithParam<std::tuple<int64_t, std::string>> {
 protected:
  static JobOptions options(const std::string& keys = "") {
    const auto& [number, precision] = GetParam();
    const std::string scale = precision == "fp16" ? ", \"initial_scale\": 256, " : ", ";
    return zero(stage(number) + scale + buckets(200) + (keys.empty() ? "" : ", ") + keys, precision);
  }
};

TEST_P(Precision, HasTheGradientsOfOneRank) {
  expect_half_gradients_of_one_rank(options(), std::get<1>(GetParam()) == "bf16" ? 1.0 / 64 : 1.0 / 512);
}

// Layers compute with the rounded masters, of which each rank has its part.
TEST_P(Precision, KeepsMastersInSingle) {
  on_ranks({2, 3}, [&](World& world) {
    const at::ScalarType dtype = precision_dtype(std::get<1>(GetParam()));
    for (const char* keys : {"", "\"extra_dp_size\": 1, \"overlap_allgather\": true"}) {
      Job job = boost(world, toy(options(), "\"frozen\": 1"), options(keys), "adamw");
      for (int64_t step = 0; step < 3; ++step) job.train_step(own_part(toy_batch(6, step), world));
      for (const Shard& shard : job.model.shared().bindings().publish(WEFT_REASON_CHECK))
        EXPECT_EQ(shard.value.scalar_type(), shard.param->frozen ? dtype : at::kFloat) << shard.param->name;
      const Tensors values = values_of(job);
      for (const auto& [name, master] : published_values(job)) {
        EXPECT_EQ(values.at(name).scalar_type(), dtype);
        EXPECT_TRUE(values.at(name).equal(master.to(at::kFloat).to(dtype))) << name;
      }
      world.communicator().barrier();
    }
  });
}

TEST_P(Precision, WithoutMastersRoundsEveryUpdate) {
  JobOptions without = options("\"master_weights\": false"), with_masters = options();
  without.max_grad_norm = with_masters.max_grad_norm = 0.05;
  expect_rules_without_masters(without, with_masters, {3});
  const auto more = [](const char* master_weights) {
    return options(std::string("\"cpu_offload\": true, \"master_weights\": ") + master_weights);
  };
  expect_rules_without_masters(more("false"), more("true"), {2});
}

INSTANTIATE_TEST_SUITE_P(LowLevelZero, Precision,
                         testing::Combine(testing::Values(1, 2), testing::Values("bf16", "fp16")));

// Rank 1 makes an infinite gradient in steps 1 and 2, whose bucket is summed to its owner.
WEFT_RANKS_TEST(LossScale, SkipsAStepOnAllRanksWhenOneOverflows, 2, 3) {
  for (const int64_t number : {1, 2}) {
    const JobOptions options = zero(stage(number) + ", " + buckets(200) +
                                        ", \"initial_scale\": 256, \"hysteresis\": 2, \"growth_interval\": 2",
                                    "fp16");
    Job job = boost(world, toy(options), options, "adamw");
    bool overflow = false;
    job.model.module().named_parameters()["blocks.1.linear.weight"].register_hook([&](at::Tensor gradient) {
      if (overflow && world.rank() == 1) gradient[2][3] = std::numeric_limits<double>::infinity();
      return gradient;
    });
    const std::vector<double> scales = {256, 256, 256, 128, 128, 256};
    for (size_t step = 0; step < scales.size(); ++step) {
      overflow = step == 1 || step == 2;
      const Tensors before = published_values(job);
      const StepResult result = job.train_step(own_part(toy_batch(6, static_cast<int64_t>(step)), world));
      EXPECT_EQ(result.updated, !overflow) << step;
      EXPECT_EQ(result.loss_scale, scales[step]) << step;
      EXPECT_EQ(published_values(job).at("wte.weight").equal(before.at("wte.weight")), overflow) << step;
    }
    world.communicator().barrier();
  }
}

TEST(MaxNorm, ClipsByTheGlobalNorm) {
  const JobOptions options = zero(buckets(200) + ", \"max_norm\": 0.05");
  JobOptions plain;
  plain.max_grad_norm = 0.05;
  Job alone = boost(one_rank(), toy(plain), plain, "adamw");
  std::vector<double> norms;
  for (int64_t step = 0; step < 4; ++step) norms.push_back(*alone.train_step(toy_batch(6, step)).grad_norm);
  const Tensors expected = published_values(alone);
  on_ranks({2, 3}, [&](World& world) {
    Job job = boost(world, toy(options), options, "adamw");
    for (int64_t step = 0; step < 4; ++step)
      EXPECT_NEAR(*job.train_step(own_part(toy_batch(6, step), world)).grad_norm, norms[step], 1e-5);
    expect_near(published_values(job), expected, 1e-4);
  });
}

WEFT_RANKS_TEST(NormType, MayBeInfinite, 2, 3) {
  const JobOptions options = zero("\"max_norm\": 0.001, \"norm_type\": \"inf\"");
  Job job = boost(world, toy(options), options);
  job.accumulate_gradients(own_part(toy_batch(6, 1), world));
  double largest = 0;
  for (const auto& [name, gradient] : published_gradients(job))
    largest = std::max(largest, gradient.abs().max().item<double>());
  job.optimizer.zero_grad();
  ASSERT_GT(largest, 0.001);
  EXPECT_NEAR(*job.train_step(own_part(toy_batch(6, 1), world)).grad_norm, largest, 1e-6 * largest);
}

TEST(MasterWeights, AreRefusedInSinglePrecision) {
  for (const char* masters : {"true", "false"}) {
    const JobOptions options = zero(std::string("\"master_weights\": ") + masters);
    EXPECT_ERROR(boost(one_rank(), toy(options), options, "adamw"), WEFT_INVALID_ARGUMENT, "master_weights",
                 "no effect");
  }
}

}  // namespace

}  // namespace weft::test
