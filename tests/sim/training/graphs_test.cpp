// Micro-batches that are captured as graphs of the simulated accelerator, and replayed.
#include "device/graph.hpp"
#include "device/random.hpp"
#include "device/stream.hpp"
#include "device/tensors.hpp"
#include "plugins/support/parity.hpp"
#include "policies/whisper/tiny_whisper.hpp"
#include "sim/sim_device.hpp"
#include "sim/training/sim_results.hpp"
#include "support/expect_error.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

// Every label counts. Of others, an eager step computes fewer logits than a graph does.
Batch whole_batch(int64_t samples, int64_t seed) {
  Batch batch = gpt2_batch(samples, seed);
  batch.set("labels", batch.at("input_ids"));
  return batch;
}
Batch six_samples(int64_t step) {
  return whole_batch(6, step);
}

Model small_gpt2(const std::string& precision = "fp32", double dropout = 0, double attention_dropout = 0) {
  return tiny_gpt2(TinyGpt2{.precision = precision,
                            .width = 16,
                            .heads = 4,
                            .dropout = dropout,
                            .attention_dropout = attention_dropout});
}

TEST(SimGraphs, GiveTheLossesAndValuesOfEagerSteps) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    for (const JobOptions& options :
         {JobOptions{}, JobOptions{.accumulate = 3}, JobOptions{.max_grad_norm = 0.1, .precision = "bf16"},
          JobOptions{.mixed_precision = "bf16"},
          JobOptions{.mixed_precision = R"({"name": "fp16", "init_scale": 256, "growth_interval": 3})"}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", options.accumulate, options.precision, options.mixed_precision));
      expect_eager(
          world, sim, [&] { return small_gpt2(options.precision); }, options, six_samples);
    }
  });
}

TEST(SimGraphs, DrawTheMasksOfEagerSteps) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    for (const JobOptions& options :
         {JobOptions{.accumulate = 2}, JobOptions{.precision = "bf16"}, JobOptions{.precision = "fp64"},
          JobOptions{.mixed_precision = "bf16"}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", options.accumulate, options.precision, options.mixed_precision));
      // Attention draws too, but keeps everything.
      const auto model = [&] { return small_gpt2(options.precision, 0.3, 1e-15); };
      expect_eager(world, sim, model, options, six_samples);
    }
  });
}

// The mode fills new memory, also that of a graph, in every replay.
TEST(SimGraphs, DrawTheMasksOfEagerStepsWhenDeterministic) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    expect_eager(
        world, sim, [&] { return small_gpt2("fp32", 0.3); }, {.accumulate = 2}, six_samples);
  });
}

// Its masks come from the device's generator, and differ from those of eager steps.
TEST(SimGraphs, DrawNewMasksOfAttentionInEveryReplay) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const auto run = [&](bool graphs, double dropout) {
      Model model = small_gpt2("fp32", 0, dropout);
      JobOptions options;
      at::manual_seed(4);
      Job job = graph_job(world, std::move(model), options, graphs, "sgd", 0);
      const Batch batch = six_samples(1);  // seeds the generators
      std::vector<double> losses;
      for (int step = 0; step < kGraphSteps; ++step) losses.push_back(job.train_step(batch).loss);
      return std::pair(losses, device::random_state());
    };
    const auto [found, random] = run(true, 0.3);
    EXPECT_EQ(std::set<double>(found.begin(), found.end()).size(), kGraphSteps) << "a mask was used again";
    EXPECT_EQ(run(true, 0.3).first, found);
    const auto [eager, random_of_eager] = run(false, 0.3);
    EXPECT_TRUE(at::equal(random, random_of_eager));
    const double without = run(true, 0).first.back();
    for (int step = 0; step < kGraphSteps; ++step) EXPECT_NEAR(found[step], without, 0.3) << step;
  });
}

// Batches of another length are of another kind, and a micro-batch may add to gradients of either.
TEST(SimGraphs, AreOfOneShape) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const auto batch_of = [](int64_t step) { return whole_batch(step % 3 == 2 ? 3 : 6, step); };
    const Trained eager = train_steps(world, sim, small_gpt2(), {.accumulate = 2}, false, batch_of);
    const Trained found = train_steps(world, sim, small_gpt2(), {.accumulate = 2}, true, batch_of);
    EXPECT_EQ(found.losses, eager.losses);
    expect_equal(found.values, eager.values);
  });
}

// One graph takes all of them: the scale is doubled after every step.
TEST(SimGraphs, TakeEveryLossScale) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const JobOptions options = {.mixed_precision =
                                    R"({"name": "fp16", "init_scale": 16, "growth_interval": 1})"};
    const Trained eager = expect_eager(
        world, sim, [&] { return small_gpt2(); }, options, six_samples);
    const Trained found = train_steps(world, sim, small_gpt2(), options, true, six_samples);
    for (int step = 4; step < kGraphSteps; ++step)
      EXPECT_LT(found.launches[step], eager.launches[step] - 60) << step;
  });
}

// More than are kept at a time: all are forgotten, and captured again.
TEST(SimGraphs, AreOfManyKinds) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const auto run = [&](bool graphs) {
      Job job = graph_job(world, small_gpt2(), {}, graphs);
      std::vector<double> losses;
      for (int step = 0; step < 3 * 18 * 3; ++step)
        losses.push_back(job.train_step(whole_batch(1 + step / 3 % 18, step)).loss);
      return losses;
    };
    EXPECT_EQ(run(true), run(false));
  });
}

// The graph computes all logits, an eager step those whose labels count. Each batch has others.
TEST(SimGraphs, TakeAnyNumberOfLabels) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const auto batch_of = [](int64_t step) {
      Batch batch = whole_batch(6, step);
      batch.set("labels", batch.at("labels").masked_fill(at::rand({6, 7}).lt(0.1 * step), -100));
      return batch;
    };
    for (const JobOptions& options : {JobOptions{.accumulate = 2}, JobOptions{.mixed_precision = "bf16"}})
      expect_eager(
          world, sim, [] { return small_gpt2(); }, options, batch_of,
          options.mixed_precision.empty() ? 1e-6 : 0.02);
  });
}

TEST(SimGraphs, TakePadding) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const auto batch_of = [](int64_t step) {
      Batch batch = whole_batch(6, step);
      const at::Tensor lengths = at::randint(3, 8, {6, 1}, at::kLong);
      batch.set("attention_mask", at::arange(7).lt(step == 4 ? at::full({6, 1}, 7) : lengths).to(at::kLong));
      return batch;
    };
    expect_eager(
        world, sim, [] { return small_gpt2(); }, {}, batch_of);
  });
}

TEST(SimGraphs, CountAuxiliaryLosses) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const auto batch_of = [](int64_t step) { return toy_batch(6, step, false); };
    expect_eager(
        world, sim, [] { return toy({}, R"("gated": false, "balance": 0.1, "dropout": 0.2)"); },
        {.accumulate = 2}, batch_of);
  });
}

const JobOptions kDataParallel[] = {
    {.strategy = "torch_ddp", .accumulate = 3},
    {.strategy = "torch_ddp", .options = R"({"gradient_as_bucket_view": true, "bucket_cap_mb": 0.001})"},
    {.strategy = "torch_ddp", .options = R"({"static_graph": true})", .accumulate = 2, .precision = "bf16"},
    {.strategy = "low_level_zero", .options = R"({"overlap_allgather": true})", .accumulate = 2},
    {.strategy = "low_level_zero",
     .options = R"({"stage": 2, "reduce_bucket_size_in_m": 0.001})",
     .accumulate = 2,
     .max_grad_norm = 0.1},
    {.strategy = "low_level_zero",
     .options =
         R"({"stage": 2, "reduce_bucket_size_in_m": 0.001, "overlap_allgather": true, "cpu_offload": true})",
     .accumulate = 2,
     .precision = "bf16"},
    {.strategy = "hybrid_parallel", .options = R"({"zero_stage": 1})", .precision = "bf16"}};

// Batches have too few samples for every micro-batch of three ranks.
TEST(SimGraphs, TrainUnderDataParallelism) {
  for (const int ranks : {2, 3})
    on_sim_ranks(ranks, [](World& world) {
      const OnSim sim(world);
      for (const JobOptions& options : kDataParallel) {
        SCOPED_TRACE(options.strategy + " " + options.options);
        expect_eager(
            world, sim, [&] { return small_gpt2(options.precision, 0.3); }, options,
            [](int64_t step) { return whole_batch(7, step); });
      }
    });
}

// Beside steps of the caller's own, in which ranks sum gradients several times.
void expect_eager_beside(const World& world, const JobOptions& options) {
  const auto run = [&](bool graphs) {
    Job job = graph_job(world, small_gpt2(), options, graphs);
    std::vector<double> losses;
    for (int step = 0; step < kGraphSteps; ++step) {
      if (step % 3 == 1) {
        losses.push_back(job.accumulate_gradients(whole_batch(6, 100 + step)));
        losses.push_back(job.evaluate(whole_batch(6, 200 + step)).loss());
        losses.push_back(job.accumulate_gradients(whole_batch(6, 300 + step)));
      }
      losses.push_back(job.train_step(whole_batch(6, step)).loss);
    }
    return std::pair(losses, published_values(job));
  };
  const auto [eager, eager_values] = run(false);
  const auto [found, values] = run(true);
  EXPECT_EQ(found, eager);
  expect_equal(values, eager_values);
}

TEST(SimGraphs, AreUsedBesideStepsOfTheCallersOwn) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    expect_eager_beside(world, {});
  });
  on_sim_ranks(2, [](World& world) {
    const OnSim sim(world);
    for (const char* strategy : {"torch_ddp", "low_level_zero"})
      expect_eager_beside(world, {.strategy = strategy});
  });
}

TEST(SimGraphs, AreRefusedWhereAStepNeedsTheHost) {
  on_sim_ranks(2, [](World& world) {
    const OnSim sim(world);
    const auto make = [&](const char* strategy, const char* options) {
      graph_job(world, small_gpt2(), {.strategy = strategy, .options = options}, true);
    };
    EXPECT_ERROR(make("torch_fsdp", "{}"), WEFT_UNIMPLEMENTED, "strategy torch_fsdp");
    EXPECT_ERROR(make("gemini", "{}"), WEFT_UNIMPLEMENTED, "strategy gemini");
    EXPECT_ERROR(make("hybrid_parallel", R"({"tp_size": 2})"), WEFT_UNIMPLEMENTED, "tp_size is 2, must be 1");
    EXPECT_ERROR(make("hybrid_parallel", R"({"pp_size": 2})"), WEFT_UNIMPLEMENTED, "pp_size is 2, must be 1");
  });
}

TEST(SimGraphs, RefuseWhatTheyCannotRepeat) {
  on_sim_ranks(1, [](World& world) {
    EXPECT_ERROR(Booster({.strategy = "none", .enable_cuda_graph = true}, world), WEFT_UNIMPLEMENTED,
                 "enable_cuda_graph is true", "no graphs");
    const OnSim sim(world);
    const auto steps_of = [&](Model model, const JobOptions& options, int steps, const Batches& batch_of) {
      Job job = graph_job(world, std::move(model), options, true);
      for (int step = 0; step < steps; ++step) job.train_step(batch_of(step));
    };
    EXPECT_ERROR(steps_of(small_gpt2(), {.recompute = "all"}, 1, six_samples), WEFT_UNIMPLEMENTED,
                 "recompute is all, must be off");
    EXPECT_ERROR(steps_of(toy(), {}, 4, [](int64_t step) { return toy_batch(6, step); }), WEFT_UNIMPLEMENTED,
                 "be captured", "sim: copy", "the option");
    const TinyWhisper augmented = {.keys = std::string(kTiedWhisper) + ", " + kAugmented};
    EXPECT_ERROR(steps_of(tiny_whisper(augmented, "fp32"), {}, 4,
                          [&](int64_t step) { return whisper_batch(augmented, 6, step); }),
                 WEFT_UNIMPLEMENTED, "be captured", "random numbers");
    // What was captured in part has run nowhere, and leaves no gradients.
    Job job = graph_job(world, tiny_whisper(augmented, "fp32"), {}, true);
    for (int step = 0; step < 3; ++step) job.train_step(whisper_batch(augmented, 6, step));
    EXPECT_ERROR(job.train_step(whisper_batch(augmented, 6, 3)), WEFT_UNIMPLEMENTED, "be captured");
    for (const auto& parameter : job.model.module().parameters()) EXPECT_FALSE(parameter.grad().defined());
    const at::Tensor value = device::on_device(at::ones({1}));
    const std::unique_ptr<device::GraphCapturer> capturer = device::make_graph_capturer();
    const device::OnStream on(device::Stream::make());
    EXPECT_ERROR(device::capture(*capturer, [&] { device::value_of<float>(value); }), WEFT_UNIMPLEMENTED,
                 "be captured", "reads values");
    EXPECT_ERROR(device::capture(*capturer, [&] { device::on_device(at::ones({1})); }), WEFT_UNIMPLEMENTED,
                 "be captured", "copies values");
    const auto growing = [](int64_t step) { return whole_batch(1 + step, step); };
    EXPECT_ERROR(steps_of(small_gpt2(), {}, 40, growing), WEFT_FAILED_PRECONDITION, "enable_cuda_graph",
                 "16 kinds", "input_ids Long (19, ");
  });
}

}  // namespace

}  // namespace weft::test
