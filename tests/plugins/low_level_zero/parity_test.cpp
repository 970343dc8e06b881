// low_level_zero on several ranks against one rank on the same global batch.
#include "plugins/low_level_zero/support.hpp"

namespace weft::test {

namespace {

class Stage : public testing::TestWithParam<int64_t> {
 protected:
  // Buckets so small that the tiny models have many.
  static JobOptions options(const std::string& keys = "", const std::string& precision = "fp32") {
    return zero(stage(GetParam()) + ", " + buckets(200) + (keys.empty() ? "" : ", ") + keys, precision);
  }
};

TEST_P(Stage, HasTheGradientsOfOneRank) {
  for (const char* precision : {"fp32", "fp64"}) expect_gradients_of_one_rank(options("", precision));
}

TEST_P(Stage, HasTheStepsOfOneRank) {
  JobOptions chosen = options();
  expect_steps_of_one_rank(chosen);
  chosen.accumulate = 3;
  chosen.recompute = "all";
  chosen.max_grad_norm = 0.05;
  expect_steps_of_one_rank(chosen, {3});
}

TEST_P(Stage, HasTheGradientsOfOneRankWithOtherOptions) {
  for (const char* keys : {"\"reduce_bucket_size_in_m\": 0", "\"reduce_bucket_size_in_m\": 12",
                           "\"overlap_communication\": false", "\"overlap_allgather\": true"})
    expect_gradients_of_one_rank(zero(stage(GetParam()) + ", " + keys, "fp64"), {2, 3});
  expect_gradients_of_one_rank(options("\"extra_dp_size\": 2", "fp64"), {2, 4});
  expect_steps_of_one_rank(options("\"extra_dp_size\": 2, \"overlap_allgather\": true"), {4});
}

TEST_P(Stage, UpdatesByEveryRuleAsOneRank) {
  expect_rules_of_one_rank(options());
  expect_rules_of_one_rank(options("\"extra_dp_size\": 2"), {4});
}

// The toy model's gate is used by the first sample only: on one rank, and in one micro-batch.
TEST_P(Stage, CountsZeroForParametersWithoutGradient) {
  const auto batch = [](int64_t samples, int64_t gated) {
    Batch global = toy_batch(samples, 1);
    global.at("kinds").zero_();
    if (gated != 0) global.at("kinds").select(0, 0).fill_(1);
    return global;
  };
  Trial trial;
  trial.model = [](const JobOptions& options) { return toy(options, "\"frozen\": 1"); };
  for (const int64_t samples : {2, 7}) {
    for (const int64_t accumulate : {1, 3}) {
      trial.batch = [&](int64_t step) { return batch(samples, step % 2 == 0); };
      JobOptions chosen = options("", "fp64");
      chosen.accumulate = accumulate;
      chosen.recompute = accumulate == 1 ? "off" : "2";
      expect_gradients_of_one_rank(chosen, {2, 3}, trial);
      trial.batch = [&](int64_t step) { return batch(samples, step % 3 == 2); };
      expect_steps_of_one_rank(chosen, {2, 3}, trial);
    }
  }
}

TEST_P(Stage, UpdatesGroupsByTheirOwnOptions) {
  const auto train = [](const World& world, const JobOptions& options) {
    const Model model = toy(options, "\"gated\": false");
    optim::Parameters decayed, other;
    for (const std::string& name : model.parameters().names)
      (name.ends_with("bias") || name.starts_with("wte") ? other : decayed).names.push_back(name);
    optim::Optimizer optimizer("adamw", {{decayed, {{"lr", 1e-2}, {"weight_decay", 0.5}}, 0},
                                         {other, {{"lr", 1e-3}, {"weight_decay", 0}, {"beta1", 0.5}}, 0}});
    Job job = boost(world, model, options, std::move(optimizer));
    for (int64_t step = 0; step < 4; ++step) job.train_step(own_part(toy_batch(6, step), world));
    return published_values(job);
  };
  JobOptions plain;
  plain.precision = "fp64";
  const Tensors expected = train(one_rank(), plain);
  on_ranks({2, 3}, [&](World& world) { expect_near(train(world, options("", "fp64")), expected, 1e-8); });
}

at::Tensor mean_square(const Job& job, const Batch& batch) {
  return job.model(batch).at("logits").square().mean();
}

// The caller's own loop: two backwards of half of the samples, the second time with evaluation between.
TEST_P(Stage, AddsUpSynchronisedBackwards) {
  const Batch global = toy_batch(8, 2);
  JobOptions plain;
  plain.precision = "fp64";
  Job alone = boost(one_rank(), toy(plain), plain);
  Booster({.strategy = "none", .precision = "fp64"}, one_rank())
      .backward(mean_square(alone, global), alone.optimizer);
  const Tensors expected = published_gradients(alone);
  on_ranks({2, 4}, [&](World& world) {
    Job job = boost(world, toy(options("", "fp64")), options("", "fp64"));
    Booster booster({.strategy = "low_level_zero"}, world);
    const Batch own = own_part(global, world);
    const int64_t half = 4 / world.size();
    for (const int64_t repeat : {1, 2}) {
      booster.backward(mean_square(job, part_of(own, 0, half)) / 2, job.optimizer);
      if (repeat == 2) job.evaluate(own);
      booster.backward(mean_square(job, part_of(own, half, 2 * half)) / 2, job.optimizer);
      expect_near(published_gradients(job), expected, kGradientFp64);
      job.optimizer.zero_grad();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(LowLevelZero, Stage, testing::Values(1, 2));

TEST(LowLevelZero, InStageOneAccumulatesWithoutCommunication) {
  const Batch global = toy_batch(8, 1);
  const JobOptions options = zero(buckets(40), "fp64");
  JobOptions plain;
  plain.precision = "fp64";
  Job alone = boost(one_rank(), toy(plain), plain);
  Booster({.strategy = "none", .precision = "fp64"}, one_rank())
      .backward(mean_square(alone, global) * 2, alone.optimizer);
  const Tensors expected = published_gradients(alone);
  on_ranks({2}, [&](World& world) {
    Job job = boost(world, toy(options), options);
    Booster booster({.strategy = "low_level_zero"}, world);
    const Batch own = own_part(global, world);
    const auto backward = [&](int64_t half) {
      booster.backward(mean_square(job, part_of(own, 2 * half, 2 * half + 2)) / 2, job.optimizer);
    };
    // Before a sum, and between one and the next.
    for (const int64_t repeat : {1, 2}) {
      const auto sent = sent_bytes([&] {
        const Booster::NoSync no_sync = booster.no_sync(job.model);
        backward(0);
      });
      EXPECT_TRUE(sent.empty()) << repeat;
      EXPECT_ERROR(job.optimizer.step(), WEFT_FAILED_PRECONDITION, "low_level_zero", "never summed",
                   "no_sync");
      backward(1);
    }
    expect_near(published_gradients(job), expected, kGradientFp64);
  });
}

TEST(LowLevelZero, InStageTwoRefusesNoSync) {
  on_ranks({2}, [&](World& world) {
    Job job = boost(world, toy(), zero(stage(2)));
    Booster booster({.strategy = "low_level_zero"}, world);
    const at::Tensor loss = mean_square(job, toy_batch(2, 1));
    const Booster::NoSync no_sync = booster.no_sync(job.model);
    EXPECT_ERROR(booster.backward(loss, job.optimizer), WEFT_FAILED_PRECONDITION, "low_level_zero: no_sync",
                 "stage 2", "use stage 1");
  });
}

TEST(LowLevelZero, OnOneRankIsBitwiseNoStrategy) {
  for (const char* keys : {"\"stage\": 1", "\"stage\": 2"}) {
    Tensors values[2];
    std::vector<double> losses[2];
    for (const bool strategy : {false, true}) {
      JobOptions options = strategy ? zero(keys) : JobOptions();
      options.max_grad_norm = 0.1;
      options.accumulate = 2;
      Job job = boost(one_rank(), toy(options, "\"dropout\": 0.2"), options, "adamw");
      for (int64_t step = 0; step < 5; ++step)
        losses[strategy].push_back(job.train_step(toy_batch(6, step)).loss);
      values[strategy] = values_of(job);
    }
    EXPECT_EQ(losses[0], losses[1]) << keys;
    expect_equal(values[1], values[0]);
  }
}

}  // namespace

}  // namespace weft::test
