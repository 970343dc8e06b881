// Every option of torch_ddp, by its effect.
#include "plugins/support/bytes.hpp"
#include "plugins/torch_ddp/support.hpp"

namespace weft::test {

namespace {

constexpr const char* kUngated = "\"gated\": false";

Job boost_toy(const World& world, const JobOptions& options, const std::string& keys = "",
              const char* rule = "sgd") {
  return boost(world, toy(options, keys), options, rule);
}

TEST(TorchDdpOptions, AreCheckedBeforeAnythingIsMade) {
  EXPECT_ERROR(boost_toy(one_rank(), ddp("{\"bucket_cap_mb\": -1}")), WEFT_INVALID_ARGUMENT, "bucket_cap_mb");
  EXPECT_ERROR(boost_toy(one_rank(), ddp("{\"bucket_cap_mb\": 1e300}")), WEFT_INVALID_ARGUMENT,
               "bucket_cap_mb");
  EXPECT_ERROR(boost_toy(one_rank(), ddp("{\"static_graphs\": true}")), WEFT_INVALID_ARGUMENT,
               "static_graph");
}

int64_t bytes_of(const char* collective) {
  const auto all = communicated_bytes();
  const auto found = all.find(collective);
  return found == all.end() ? 0 : found->second;
}

WEFT_RANKS_TEST(BucketCap, MovesNoByteTwiceWhateverTheSize, 2, 4) {
  for (const char* cap : {"0", "0.0001", "25"}) {
    Job job = boost_toy(world, ddp(std::string("{\"bucket_cap_mb\": ") + cap + "}"), kUngated);
    const int64_t before = bytes_of("all_reduce"), elements = job.model.num_elements();
    for (const int64_t step : {1, 2}) {
      job.train_step(toy_batch(4, step));
      // 2 (P - 1) / P of the parameters' bytes, to the byte (the toy's tensors divide evenly by 4 ranks).
      EXPECT_EQ(bytes_of("all_reduce") - before, step * 2 * elements * 4 * (world.size() - 1) / world.size())
          << cap;
    }
    EXPECT_EQ(bytes_of("all_gather") + bytes_of("broadcast") + bytes_of("reduce_scatter"), 0);
  }
}

TEST(GradientAsBucketView, SavesOneCopyOfTheGradients) {
  const auto held = [](const char* views) {
    const StateBytes bytes =
        state_bytes(one_rank(), ddp(std::string("{\"gradient_as_bucket_view\": ") + views + "}"));
    return static_cast<double>(bytes.held) / bytes.elements;
  };
  // Values, gradients and two moments; buckets besides.
  EXPECT_NEAR(held("true"), 16, 0.32);
  EXPECT_NEAR(held("false"), 20, 0.4);
}

WEFT_RANKS_TEST(GradientAsBucketView, AccumulatesWithoutSynchronisationInTheBuckets, 2) {
  const JobOptions options = ddp("{\"gradient_as_bucket_view\": true}");
  Job job = boost_toy(world, options, kUngated);
  job.accumulate_gradients(toy_batch(2, 1), false);
  const auto storage = [&] {
    return job.model.module().named_parameters()["wte.weight"].grad().storage().data();
  };
  const void* const before = storage();
  job.accumulate_gradients(toy_batch(2, 2), false);
  job.accumulate_gradients(toy_batch(2, 3), true);
  EXPECT_EQ(storage(), before);
}

TEST(FindUnusedParameters, OffIsAnErrorNamingTheParameterOnEveryRank) {
  for (const bool everywhere : {true, false}) {
    on_ranks({2, 3}, [&](World& world) {
      Job job = boost_toy(world, ddp());
      const bool gated = !everywhere && world.rank() != 1;
      EXPECT_ERROR(job.train_step(toy_batch(3, 1, gated)), WEFT_FAILED_PRECONDITION, "torch_ddp",
                   "blocks.0.gate", gated ? "another rank" : "this rank", "find_unused_parameters=true");
      EXPECT_ERROR(job.train_step(toy_batch(3, 1)), WEFT_FAILED_PRECONDITION, "earlier step",
                   "blocks.0.gate");
    });
  }
}

TEST(FindUnusedParameters, OnCountsZeroForARankThatDoesNotUseIt) {
  Batch global = toy_batch(6, 2);
  global.at("kinds").narrow(0, 3, 3).zero_();
  const JobOptions options = ddp("{\"find_unused_parameters\": true}", "fp64");
  const Outcome expected = on_one_rank(global, options);
  ASSERT_TRUE(expected.gradients.at("blocks.0.gate").defined());
  on_ranks({2}, [&](World& world) {
    Job job = boost_toy(world, options);
    expect_near(backward(job, own_part(global, world)), expected, "fp64");
  });
}

TEST(FindUnusedParameters, OnLeavesAloneWhatNoRankUses) {
  JobOptions options = ddp("{\"find_unused_parameters\": true}", "fp64");
  JobOptions plain = options;
  plain.strategy = "none";
  plain.options = "{}";
  const auto train = [](Job& job, const World& world) {
    for (const int64_t step : {1, 2, 3}) {
      const bool gated = step == 2;
      // A backward whose gradients are thrown away leaves no trace.
      job.accumulate_gradients(own_part(toy_batch(4, step, true), world));
      job.optimizer.zero_grad();
      job.train_step(own_part(toy_batch(4, step, gated), world));
    }
    return values_of(job);
  };
  Job alone = boost_toy(one_rank(), plain, "", "adamw");
  const Tensors initial = values_of(alone);
  alone.train_step(toy_batch(4, 1, false));
  EXPECT_TRUE(values_of(alone).at("blocks.0.gate").equal(initial.at("blocks.0.gate")));
  Job again = boost_toy(one_rank(), plain, "", "adamw");
  const Tensors expected = train(again, one_rank());
  on_ranks({2}, [&](World& world) {
    Job job = boost_toy(world, options, "", "adamw");
    const Tensors before = values_of(job);
    job.train_step(own_part(toy_batch(4, 1, false), world));  // AdamW with decay
    EXPECT_TRUE(values_of(job).at("blocks.0.gate").equal(before.at("blocks.0.gate")));
    EXPECT_FALSE(values_of(job).at("blocks.1.norm.weight").equal(before.at("blocks.1.norm.weight")));
    Job other = boost_toy(world, options, "", "adamw");
    expect_near(train(other, world), expected, 1e-8);
  });
}

TEST(StaticGraph, AllowsWhatTheFirstBackwardDidNotUse) {
  const JobOptions options = ddp("{\"static_graph\": true}", "fp64");
  const Outcome first = on_one_rank(toy_batch(4, 1, false), options);
  on_ranks({2}, [&](World& world) {
    Job job = boost_toy(world, options);
    for (int repeat = 0; repeat < 3; ++repeat) {
      Outcome outcome = backward(job, own_part(toy_batch(4, 1, false), world));
      EXPECT_TRUE(outcome.gradients.at("blocks.0.gate").equal(at::zeros({6}, at::kDouble)));
      outcome.gradients.at("blocks.0.gate").reset();
      Outcome expected = first;
      EXPECT_FALSE(expected.gradients.at("blocks.0.gate").defined());
      expected.gradients.erase("blocks.0.gate");
      outcome.gradients.erase("blocks.0.gate");
      expect_near(outcome, expected, "fp64");
      job.optimizer.zero_grad();
    }
  });
}

TEST(StaticGraph, AllowsDifferentGraphsOnDifferentRanks) {
  Batch global = toy_batch(6, 2);
  global.at("kinds").narrow(0, 3, 3).zero_();
  const JobOptions options = ddp("{\"static_graph\": true}", "fp64");
  const Outcome expected = on_one_rank(global, options);
  on_ranks({2}, [&](World& world) {
    Job job = boost_toy(world, options);
    for (int repeat = 0; repeat < 2; ++repeat) {
      expect_near(backward(job, own_part(global, world)), expected, "fp64");
      job.optimizer.zero_grad();
    }
  });
}

WEFT_RANKS_TEST(StaticGraph, RefusesAGraphThatChanges, 2) {
  {
    Job job = boost_toy(world, ddp("{\"static_graph\": true}"));
    job.train_step(toy_batch(3, 1));
    EXPECT_ERROR(job.train_step(toy_batch(3, 2, world.rank() == 0)), WEFT_FAILED_PRECONDITION, "torch_ddp",
                 "blocks.0.gate", "got one", "turn static_graph off");
  }
  Job job = boost_toy(world, ddp("{\"static_graph\": true}"));
  job.train_step(toy_batch(3, 1, false));
  EXPECT_ERROR(job.train_step(toy_batch(3, 2, world.rank() == 1)), WEFT_FAILED_PRECONDITION, "torch_ddp",
               "blocks.0.gate", "had none", "turn static_graph off");
}

WEFT_RANKS_TEST(BroadcastBuffers, TakesThoseOfRankZeroBeforeEachForward, 2, 3) {
  for (const bool on : {true, false}) {
    const JobOptions options = ddp(std::string("{\"broadcast_buffers\": ") + (on ? "true}" : "false}"));
    const auto module = make_toy();
    Job job = boost(world, Model::adopt(module), options);
    const at::Tensor scale = module->scale();
    scale.fill_(2.0 + world.rank());
    job.forward(toy_batch(2, 1));
    EXPECT_EQ(scale.item<double>(), on ? 2.0 : 2.0 + world.rank());
    scale.fill_(5.0 + world.rank());
    job.train_step(toy_batch(2, 1));
    EXPECT_EQ(scale.item<double>(), on ? 5.0 : 5.0 + world.rank());
    EXPECT_EQ(bytes_of("broadcast"), on && world.rank() == 0 ? 8 : on || world.rank() != 0 ? 0 : 8);
  }
}

constexpr const char* kCheck = "{\"check_reduction\": true}";

WEFT_RANKS_TEST(CheckReduction, LetsCorrectLoopsThroughUnchanged, 2, 3) {
  const auto values_after_loops = [&](const char* option) {
    JobOptions options = ddp(option);
    options.accumulate = 2;
    Job job = boost_toy(world, options, kUngated);
    for (const int64_t step : {1, 2}) job.train_step(toy_batch(4, step));
    job.evaluate(toy_batch(3, 3));
    job.accumulate_gradients(toy_batch(4, 4), false);
    job.accumulate_gradients(toy_batch(4, 5), true);
    job.optimizer.step();
    job.optimizer.zero_grad();
    job.accumulate_gradients(toy_batch(4, 6), false);
    job.optimizer.zero_grad();  // thrown away: nobody updated with them
    job.train_step(toy_batch(4, 7));
    return values_of(job);
  };
  const Tensors checked = values_after_loops(kCheck), expected = values_after_loops("{}");
  expect_near(checked, expected, kGradientFp32);
}

WEFT_RANKS_TEST(CheckReduction, CatchesAnUpdateWithGradientsThatWereNeverSummed, 2) {
  for (const bool check : {false, true}) {
    Job job = boost_toy(world, ddp(check ? kCheck : "{}"), kUngated);
    job.accumulate_gradients(toy_batch(4, 1 + world.rank()), false);
    job.optimizer.step();
    job.optimizer.zero_grad();
    const auto next = [&] { job.train_step(toy_batch(4, 3)); };
    if (check)
      EXPECT_ERROR(next(), WEFT_FAILED_PRECONDITION, "torch_ddp: check_reduction", "never summed", "no_sync");
    else
      next();
  }
}

WEFT_RANKS_TEST(CheckReduction, CatchesARankThatSkippedABackward, 2, 3) {
  Job job = boost_toy(world, ddp(kCheck), kUngated);
  Booster booster({.strategy = "torch_ddp"}, world);
  const auto loss = [&](int64_t seed) { return job.model(toy_batch(2, seed)).at("logits").square().mean(); };
  booster.backward(loss(1), job.optimizer);
  const at::Tensor second = loss(2);
  // Rank 1 goes on to the next forward.
  EXPECT_ERROR(world.rank() == 1 ? (void)loss(3) : booster.backward(second, job.optimizer),
               WEFT_FAILED_PRECONDITION, "torch_ddp: check_reduction", "ranks disagree",
               world.rank() == 1 ? "a forward" : "a backward");
}

WEFT_RANKS_TEST(CheckReduction, CatchesARankThatDoesNotSynchronise, 2) {
  Job job = boost_toy(world, ddp(kCheck), kUngated);
  Booster booster({.strategy = "torch_ddp"}, world);
  const at::Tensor loss = job.model(toy_batch(2, 1)).at("logits").square().mean();
  std::optional<Booster::NoSync> no_sync;
  if (world.rank() == 1) no_sync.emplace(job.model);
  EXPECT_ERROR(booster.backward(loss, job.optimizer), WEFT_FAILED_PRECONDITION, "ranks disagree",
               "under no_sync");
}

WEFT_RANKS_TEST(TorchDdp, ItsEstimateIsWhatIsCounted, 2, 3) {
  for (const char* given : {R"({"broadcast_buffers": false})",
                            R"({"broadcast_buffers": false, "gradient_as_bucket_view": true})"}) {
    JobOptions options;
    options.strategy = "torch_ddp";
    options.options = given;
    expect_estimate_is_counted(world, options);
  }
}

WEFT_RANKS_TEST(TorchDdp, HoldsAndSendsWhatTheKernelSays, 2) {
  expect_kernel_agrees(world, ddp(R"({"broadcast_buffers": false, "gradient_as_bucket_view": true})"));
}

}  // namespace

}  // namespace weft::test
