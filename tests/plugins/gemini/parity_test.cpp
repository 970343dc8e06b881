// gemini on several ranks against one rank on the same global batches.
#include "plugins/gemini/support.hpp"

namespace weft::test {

namespace {

// Chunks of about 600 elements: larger than any parameter of the small models, smaller than a layer.
constexpr const char* kSmallChunks =
    R"("search_range_m": 0.0005, "hidden_dim": 12, "min_chunk_size_m": 0.0005)";

std::string with_chunks(const std::string& more = "") {
  return kSmallChunks + (more.empty() ? "" : ", " + more);
}

Trial toy_trial() {
  Trial trial;
  trial.model = [](const JobOptions& options) { return toy(options, "\"vocab\": 21, \"width\": 8"); };
  trial.batch = [](int64_t step) {
    // The gate is used by the first sample only, and not at all in odd steps; labels are many in the last
    // samples.
    Batch batch = toy_batch(5, step, step % 2 == 0);
    batch.at("kinds").narrow(0, 1, 4).zero_();
    batch.at("labels").narrow(0, 0, 2).narrow(1, 1, 4).fill_(-100);
    return batch;
  };
  return trial;
}

class Precisions : public testing::TestWithParam<std::string> {};

TEST_P(Precisions, GradientsAreThoseOfOneRank) {
  expect_gradients_of_one_rank(gemini(with_chunks(), GetParam()));
}

TEST_P(Precisions, GradientsOfATiedAndAnUnusedParameterAreThoseOfOneRank) {
  expect_gradients_of_one_rank(gemini(R"("chunk_config_dict": {"chunk_size": 120})", GetParam()), {2, 3, 4},
                               toy_trial());
}

INSTANTIATE_TEST_SUITE_P(Gemini, Precisions, testing::Values("fp32", "fp64"));

class Options : public testing::TestWithParam<std::string> {};

TEST_P(Options, ChangeNoGradient) {
  const int ranks = GetParam().find("extra_dp_size") == std::string::npos ? 2 : 4;
  expect_gradients_of_one_rank(gemini(with_chunks(GetParam()), "fp64"), {ranks});
}

INSTANTIATE_TEST_SUITE_P(
    Gemini, Options,
    testing::Values(R"("placement_policy": "cpu")", R"("placement_policy": "cuda")",
                    R"("placement_policy": "const")", R"("placement_policy": "auto", "max_prefetch": 2)",
                    R"("shard_param_frac": 0.4)", R"("offload_optim_frac": 0.5, "max_prefetch": 3)",
                    R"("offload_optim_frac": 1, "offload_param_frac": 0.5, "pin_memory": true)",
                    R"("enable_async_reduce": false)", R"("max_prefetch": 100)", R"("extra_dp_size": 2)",
                    R"("strict_ddp_mode": true)", R"("chunk_init_device": "cpu")"));

TEST(Gemini, TwentyStepsAreThoseOfOneRank) {
  expect_steps_of_one_rank(gemini(with_chunks()), {2, 3});
}

TEST(Gemini, UpdatesByEveryRuleAsOneRank) {
  expect_rules_of_one_rank(gemini(R"("chunk_config_dict": {"chunk_size": 120})"));
  expect_rules_of_one_rank(gemini(R"("chunk_config_dict": {"chunk_size": 120}, "extra_dp_size": 2)"), {4});
}

TEST(Gemini, RecomputationAndClippingChangeNothing) {
  JobOptions options = gemini(with_chunks("\"max_prefetch\": 1"), "fp64");
  options.recompute = "all";
  options.max_grad_norm = 0.05;
  expect_gradients_of_one_rank(options, {2, 3});
}

TEST(Gemini, FrozenUnitsAreThoseOfOneRank) {
  Trial trial = toy_trial();
  trial.model = [](const JobOptions& options) {
    return toy(options, R"("vocab": 21, "width": 8, "frozen": 2, "gated": false)");
  };
  trial.batch = [](int64_t step) { return toy_batch(5, step, false); };
  for (const char* policy : {"static", "auto"})
    expect_gradients_of_one_rank(
        gemini(
            std::string(R"("chunk_config_dict": {"chunk_size": 120}, "placement_policy": ")") + policy + "\"",
            "fp64"),
        {2, 3}, trial);
}

TEST(Gemini, AccumulationIsThatOfOneRank) {
  for (const char* policy : {"static", "auto"}) {
    JobOptions options =
        gemini(with_chunks(std::string(R"("enable_gradient_accumulation": true, "placement_policy": ")") +
                           policy + "\""),
               "fp64");
    options.accumulate = 3;
    expect_gradients_of_one_rank(options, {2});
  }
}

TEST(Gemini, EvaluationBetweenForwardAndStepChangesNothing) {
  on_ranks({2}, [&](World& world) {
    const JobOptions options = gemini(with_chunks(), "fp64");
    const auto train = [&](bool evaluates) {
      Job job = boost(world, tiny_gpt2("fp64"), options, "adamw");
      for (int64_t step = 0; step < 3; ++step) {
        if (evaluates) job.evaluate(own_part(gpt2_batch(4, 9), world));
        job.accumulate_gradients(own_part(gpt2_batch(4, step), world));
        if (evaluates) job.evaluate(own_part(gpt2_batch(4, 8), world));
        job.optimizer.step();
        job.optimizer.zero_grad();
      }
      return published_values(job);
    };
    expect_equal(train(true), train(false));
  });
}

TEST(HalfPrecision, GradientsAreThoseOfOneRankUpToRounding) {
  const auto chunks = [](const std::string& more) {
    return "\"chunk_config_dict\": {\"chunk_size\": 40000}" + more;
  };
  for (const char* more :
       {"", R"(, "placement_policy": "auto")", R"(, "enable_gradient_accumulation": true)"})
    expect_half_gradients_of_one_rank(gemini(chunks(more), "bf16"), 0.02, {2, 3});
  for (const char* more : {"", R"(, "offload_optim_frac": 1)"})
    expect_half_gradients_of_one_rank(gemini(chunks(more), "fp16"), 0.003, {2, 3});
}

TEST(HalfPrecision, AnOverflowOnOneRankSkipsTheStepOnAllAndTrainingRecovers) {
  on_ranks({2}, [](World& world) {
    const JobOptions options =
        gemini(with_chunks(R"("initial_scale": 1024, "hysteresis": 1, "growth_interval": 2)"), "fp16");
    Job job = boost(world, tiny_gpt2("fp16"), options);
    int step = 0;
    job.criterion = [&](const State& outputs, const Batch&) {
      const at::Tensor mean = outputs.at("logits").to(at::kFloat).mean();
      return step == 1 && world.rank() == 1 ? mean * 3e38 * 3e38 : mean;
    };
    const auto train = [&] { return job.train_step(own_part(gpt2_batch(4, 1), world)); };
    EXPECT_TRUE(train().updated);
    step = 1;
    const Tensors before = published_values(job);
    EXPECT_FALSE(train().updated);
    expect_equal(published_values(job), before);
    step = 2;
    const StepResult result = train();
    EXPECT_TRUE(result.updated);
    EXPECT_EQ(result.loss_scale, 512.);
    EXPECT_FALSE(at::equal(published_values(job).begin()->second, before.begin()->second));
  });
}

// The caller's own loop: half of the samples under no_sync, the other half summed with them.
TEST(Gemini, UnderNoSyncAccumulatesWhatOneBigBatchGivesIfItsOptionIsOn) {
  const Batch global = toy_batch(8, 1, false);
  const auto mean_square = [](const Job& job, const Batch& batch) {
    return job.model(batch).at("logits").square().mean();
  };
  JobOptions plain;
  plain.precision = "fp64";
  Job alone = boost(one_rank(), toy(plain, "\"gated\": false"), plain);
  Booster({.strategy = "none", .precision = "fp64"}, one_rank())
      .backward(mean_square(alone, global), alone.optimizer);
  const Tensors expected = published_gradients(alone);
  on_ranks({2}, [&](World& world) {
    Booster booster({.strategy = "gemini"}, world);
    const Batch own = own_part(global, world);
    for (const bool on : {false, true}) {
      const JobOptions options = gemini(
          std::string(R"("chunk_config_dict": {"chunk_size": 120}, "enable_gradient_accumulation": )") +
              (on ? "true" : "false"),
          "fp64");
      Job job = boost(world, toy(options, "\"gated\": false"), options);
      const auto half = [&](int64_t i) {
        booster.backward(mean_square(job, part_of(own, 2 * i, 2 * i + 2)) / 2, job.optimizer);
      };
      {
        const Booster::NoSync no_sync = booster.no_sync(job.model);
        if (!on) {
          EXPECT_ERROR(half(0), WEFT_FAILED_PRECONDITION, "gemini", "no_sync",
                       "enable_gradient_accumulation=true");
          continue;
        }
        half(0);
      }
      half(1);
      expect_near(published_gradients(job), expected, kGradientFp64);
    }
  });
}

// One backward through two forwards: hooks of the later forward come first, gradients at the end.
TEST(Gemini, OneBackwardThroughTwoForwardsIsThatOfOneRank) {
  const auto run = [](const World& world, const JobOptions& options) {
    Job job = boost(world, tiny_gpt2("fp64"), options);
    BoosterOptions chosen;
    chosen.strategy = options.strategy;
    Booster booster(chosen, world);
    const auto loss = [&](int64_t seed) {
      return job.model({{"input_ids", gpt2_batch(3, seed).at("input_ids")}}).at("logits").square().mean();
    };
    booster.backward(loss(1) + 2 * loss(2), job.optimizer);
    return published_gradients(job);
  };
  JobOptions plain;
  plain.precision = "fp64";
  const Tensors expected = run(one_rank(), plain);
  on_ranks({2}, [&](World& world) {
    expect_near(run(world, gemini(with_chunks(), "fp64")), expected, kGradientFp64);
  });
}

}  // namespace

}  // namespace weft::test
