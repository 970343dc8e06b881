// torch_fsdp on several ranks against one rank on the same global batch.
#include "plugins/torch_fsdp/support.hpp"

namespace weft::test {

namespace {

using Case = std::tuple<const char*, std::vector<int>>;  // options, on which numbers of ranks
const Case kCases[] = {
    {kFull, {2, 3, 4}}, {kGradOp, {2, 3, 4}}, {kNone, {2, 3, 4}}, {kHybridOne, {3}}, {kHybridTwo, {2, 4}}};

class Shardings : public testing::TestWithParam<Case> {
 protected:
  static JobOptions options(const std::string& precision) { return fsdp(std::get<0>(GetParam()), precision); }
  static std::vector<int> ranks() { return std::get<1>(GetParam()); }
};

TEST_P(Shardings, HaveTheGradientsOfOneRank) {
  for (const char* precision : {"fp32", "fp64"}) expect_gradients_of_one_rank(options(precision), ranks());
}

TEST_P(Shardings, HaveTheGradientsOfOneRankInHalfPrecision) {
  expect_half_gradients_of_one_rank(options("bf16"), 1.0 / 64, ranks());
  expect_half_gradients_of_one_rank(options("fp16"), 1.0 / 512, ranks());
}

TEST_P(Shardings, TrainAsOneRankDoes) {
  expect_steps_of_one_rank(options("fp32"), ranks());
}

TEST_P(Shardings, TrainAsOneRankDoesWithClippingAccumulationAndRecomputation) {
  JobOptions chosen = options("fp32");
  chosen.accumulate = 2;
  chosen.max_grad_norm = 0.5;
  chosen.recompute = "all";
  Trial trial;
  trial.batch = [](int64_t step) { return gpt2_batch(8, step); };
  expect_steps_of_one_rank(chosen, {ranks().back()}, trial);
}

TEST_P(Shardings, UpdateByEveryRuleAsOneRank) {
  expect_rules_of_one_rank(options("fp64"), {ranks().back()});
}

// The toy's gate is used by the first samples only, so on some rank it has no gradient.
Trial toys(const std::string& keys = "") {
  Trial trial;
  trial.model = [keys](const JobOptions& options) { return toy(options, keys); };
  trial.batch = [](int64_t step) {
    Batch batch = toy_batch(5, step);
    batch.at("kinds").narrow(0, 1, 4).zero_();
    batch.at("kinds").select(0, 0).fill_(step % 2);
    return batch;
  };
  return trial;
}

TEST_P(Shardings, CountZeroForAParameterThatARankDoesNotUse) {
  expect_gradients_of_one_rank(options("fp64"), ranks(), toys());
  expect_steps_of_one_rank(options("fp32"), {ranks().back()}, toys());
}

TEST_P(Shardings, LeaveFrozenParametersAlone) {
  expect_gradients_of_one_rank(options("fp64"), ranks(), toys("\"frozen\": 2"));
  expect_steps_of_one_rank(options("fp32"), {ranks().back()}, toys("\"frozen\": 2"));
}

INSTANTIATE_TEST_SUITE_P(Strategies, Shardings, testing::ValuesIn(kCases));

TEST(Wrapping, ChangesNoGradient) {
  for (const char* options :
       {R"({"auto_wrap_policy": "none"})", R"({"auto_wrap_policy": "size", "min_num_params": 1000})",
        R"({"backward_prefetch": "BACKWARD_POST", "forward_prefetch": true})",
        R"({"backward_prefetch": "none"})", R"({"forward_prefetch": true, "limit_all_gathers": false})",
        R"({"ignored_modules": ["transformer.wte", "transformer.h.1.attn"]})"})
    expect_gradients_of_one_rank(fsdp(options, "fp64"), {2, 3});
}

at::Tensor mean_square(const Job& job, const Batch& batch) {
  return job.model(batch).at("logits").square().mean();
}

class OwnLoop : public testing::TestWithParam<const char*> {
 protected:
  static constexpr const char* kUngated = "\"gated\": false";
  static JobOptions options() { return fsdp(GetParam(), "fp64"); }
  // The mean over all samples, on one rank.
  static Tensors reference(const Batch& global) {
    JobOptions plain;
    plain.precision = "fp64";
    Job alone = boost(one_rank(), toy(plain, kUngated), plain);
    Booster({.strategy = "none", .precision = "fp64"}, one_rank())
        .backward(mean_square(alone, global), alone.optimizer);
    return published_gradients(alone);
  }
};

TEST_P(OwnLoop, AccumulatesUnderNoSyncWhatOneBigBatchGives) {
  const Batch global = toy_batch(8, 1);
  const Tensors expected = reference(global);
  on_ranks({2}, [&](World& world) {
    Job job = boost(world, toy(options(), kUngated), options());
    Booster booster({.strategy = "torch_fsdp"}, world);
    const Batch own = own_part(global, world);
    const auto half = [&](int64_t i) {
      booster.backward(mean_square(job, part_of(own, 2 * i, 2 * i + 2)) / 2, job.optimizer);
    };
    const auto sent = sent_bytes([&] {
      const Booster::NoSync no_sync = booster.no_sync(job.model);
      half(0);
    });
    EXPECT_FALSE(sent.contains("reduce_scatter") || sent.contains("all_reduce"));
    half(1);
    expect_near(published_gradients(job), expected, kGradientFp64);
    // What was thrown away counts no more.
    job.optimizer.zero_grad();
    {
      const Booster::NoSync no_sync = booster.no_sync(job.model);
      half(1);
    }
    job.optimizer.zero_grad();
    half(0), half(1);
    expect_near(published_gradients(job), expected, kGradientFp64);
  });
}

TEST_P(OwnLoop, TakesSeveralForwardsAndEvaluationBeforeABackward) {
  const Batch global = toy_batch(8, 3);
  const Tensors expected = reference(global);
  on_ranks({2}, [&](World& world) {
    Job job = boost(world, toy(options(), kUngated), options());
    Booster booster({.strategy = "torch_fsdp"}, world);
    const Batch own = own_part(global, world);
    const at::Tensor first = mean_square(job, part_of(own, 0, 2));
    job.evaluate(own);
    const at::Tensor second = mean_square(job, part_of(own, 2, 4));
    booster.backward((first + second) / 2, job.optimizer);
    expect_near(published_gradients(job), expected, kGradientFp64);
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, OwnLoop,
                         testing::Values(kFull, kGradOp, kNone, R"({"auto_wrap_policy": "none"})"));

TEST(Groups, HaveTheirOwnOptions) {
  const auto train = [](const World& world, const JobOptions& options) {
    const Model model = tiny_gpt2();
    optim::Parameters rates[2];
    for (const std::string& name : model.parameters().names)
      rates[name.ends_with("bias")].names.push_back(name);
    BoosterOptions chosen;
    chosen.strategy = options.strategy;
    optim::Hyper fast = {{"lr", 0.5}}, slow = {{"lr", 0.01}};
    Job job = Booster(chosen, world)
                  .boost(model, optim::Optimizer("sgd", {{rates[0], fast, 0}, {rates[1], slow, 0}}));
    for (const int64_t step : {1, 2, 3}) job.train_step(own_part(gpt2_batch(6, step), world));
    return published_values(job);
  };
  const Tensors expected = train(one_rank(), {});
  on_ranks({2, 3}, [&](World& world) { expect_near(train(world, fsdp()), expected, kGradientFp32); });
}

TEST(OneRank, IsBitwiseNoStrategy) {
  for (const char* recompute : {"off", "all"}) {
    Tensors values[2];
    for (const bool strategy : {false, true}) {
      JobOptions options = strategy ? fsdp() : JobOptions{};
      options.max_grad_norm = 0.1;
      options.accumulate = 2;
      options.recompute = recompute;
      Job job = boost(one_rank(), toy(options, "\"dropout\": 0.2"), options, "adamw");
      for (int64_t step = 0; step < 5; ++step) job.train_step(toy_batch(6, step));
      values[strategy] = published_values(job);
    }
    expect_equal(values[1], values[0]);
  }
}

}  // namespace

}  // namespace weft::test
