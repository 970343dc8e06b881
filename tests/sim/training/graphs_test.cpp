// Micro-batches that are recorded as graphs of the simulated accelerator, and replayed.
#include "engine/training/boosted.hpp"
#include "plugins/support/parity.hpp"
#include "policies/gpt2/gpt2_trial.hpp"
#include "sim/sim_device.hpp"
#include "sim/training/sim_ranks.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

constexpr int kSteps = 8;

// Every label counts. Of others, a usual step computes fewer logits than a graph does.
Batch whole_batch(int64_t samples, int64_t seed) {
  Batch batch = gpt2_batch(samples, seed);
  batch.set("labels", batch.at("input_ids"));
  return batch;
}

Job graph_job(const World& world, Model model, JobOptions options, bool graphs,
              const std::string& rule = "adamw") {
  BoosterOptions chosen = booster_options_of(options);
  chosen.enable_cuda_graph = graphs;
  optim::Optimizer optimizer(rule, model.parameters(), {{"lr", 1e-2}});
  return Booster(chosen, world).boost(std::move(model), std::move(optimizer));
}

struct Trained {
  std::vector<double> losses;
  Tensors values;
  std::vector<int64_t> launches;  // by step
};

Trained train(const World& world, c10::DeviceIndex index, const JobOptions& options, bool graphs,
              const std::function<Batch(int step)>& batch_of) {
  Job job = graph_job(
      world, tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4, .layers = 2}),
      options, graphs);
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    sim::synchronise(index);
    sim::reset_counters(index);
    trained.losses.push_back(job.train_step(batch_of(step)).loss);
    trained.launches.push_back(sim::counters(index).launches);
    EXPECT_EQ(job.optimizer.steps(), step + 1);
  }
  for (const auto& [name, value] : values_of(job)) trained.values[name] = value.cpu();
  return trained;
}

TEST(SimGraphs, GiveTheLossesAndValuesOfUsualSteps) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    for (const JobOptions& options :
         {JobOptions{}, JobOptions{.accumulate = 3}, JobOptions{.max_grad_norm = 0.1, .precision = "bf16"},
          JobOptions{.mixed_precision = "bf16"},
          JobOptions{.mixed_precision = R"({"name": "fp16", "init_scale": 256, "growth_interval": 3})"}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", options.accumulate, options.precision, options.mixed_precision));
      const auto batch_of = [](int step) { return whole_batch(6, step); };
      const Trained usual = train(world, sim.index(), options, false, batch_of);
      const Trained found = train(world, sim.index(), options, true, batch_of);
      EXPECT_EQ(found.losses, usual.losses);
      expect_equal(found.values, usual.values);
      // The first steps compare ranks, and run as usual; the update is not part of a graph.
      EXPECT_GE(found.launches[2], usual.launches[2]);
      EXPECT_LT(*std::min_element(found.launches.begin(), found.launches.end()), usual.launches[2] - 60);
    }
  });
}

// Batches of another length are of another kind, and a micro-batch may add to gradients of either.
TEST(SimGraphs, AreOfOneShape) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const auto batch_of = [](int step) { return whole_batch(step % 3 == 2 ? 3 : 6, step); };
    const Trained usual = train(world, sim.index(), {.accumulate = 2}, false, batch_of);
    const Trained found = train(world, sim.index(), {.accumulate = 2}, true, batch_of);
    EXPECT_EQ(found.losses, usual.losses);
    expect_equal(found.values, usual.values);
  });
}

TEST(SimGraphs, MayComputeMoreLogitsThanCount) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const auto batch_of = [](int step) { return gpt2_batch(6, step); };
    const Trained usual = train(world, sim.index(), {}, false, batch_of);
    const Trained found = train(world, sim.index(), {}, true, batch_of);
    expect_near(found.values, usual.values, 1e-6);
    EXPECT_LT(found.launches[kSteps - 1], usual.launches[kSteps - 1] / 4);
  });
}

TEST(SimGraphs, AreUsedBesideStepsOfTheCallersOwn) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    const auto run = [&](bool graphs) {
      Job job = graph_job(world, tiny_gpt2(TinyGpt2{.width = 16, .heads = 4}), {}, graphs);
      std::vector<double> losses;
      for (int step = 0; step < kSteps; ++step) {
        if (step % 3 == 1) {
          losses.push_back(job.accumulate_gradients(whole_batch(6, 100 + step)));
          losses.push_back(job.evaluate(whole_batch(6, 200 + step)).loss());
        }
        losses.push_back(job.train_step(whole_batch(6, step)).loss);
      }
      return std::pair(losses, values_of(job));
    };
    const auto [usual, usual_values] = run(false);
    const auto [found, values] = run(true);
    EXPECT_EQ(found, usual);
    for (const auto& [name, value] : usual_values) EXPECT_TRUE(at::equal(values.at(name), value)) << name;
  });
}

TEST(SimGraphs, RefuseWhatTheyCannotRepeat) {
  on_sim_ranks(1, [](World& world) {
    EXPECT_ERROR(Booster({.strategy = "none", .enable_cuda_graph = true}, world), WEFT_UNIMPLEMENTED,
                 "enable_cuda_graph is true, but the device cpu has no graphs");
    const OnSim sim(world);
    const auto steps_of = [&](TinyGpt2 gpt2, const JobOptions& options, int steps, const auto& batch_of) {
      gpt2.width = 16;
      gpt2.heads = 4;
      Job job = graph_job(world, tiny_gpt2(gpt2), options, true);
      for (int step = 0; step < steps; ++step) job.train_step(batch_of(step));
    };
    const auto usual = [](int step) { return whole_batch(6, step); };
    EXPECT_ERROR(steps_of(TinyGpt2{.dropout = 0.1}, JobOptions(), 4, usual), WEFT_UNIMPLEMENTED,
                 "cannot be recorded: it draws random numbers");
    EXPECT_ERROR(steps_of(TinyGpt2(), JobOptions{.strategy = "torch_ddp"}, 1, usual), WEFT_UNIMPLEMENTED,
                 "the strategy is torch_ddp");
    EXPECT_ERROR(steps_of(TinyGpt2(), JobOptions{.recompute = "all"}, 1, usual), WEFT_UNIMPLEMENTED,
                 "recompute is all, must be off");
    const auto padded = [](int step) {
      Batch batch = whole_batch(6, step);
      at::Tensor mask = at::ones_like(batch.at("input_ids"));
      mask.select(1, -1).zero_();
      batch.set("attention_mask", mask);
      return batch;
    };
    EXPECT_ERROR(steps_of(TinyGpt2(), JobOptions(), 4, padded), WEFT_UNIMPLEMENTED,
                 "cannot be recorded: the host reads values of the device");
    const auto growing = [](int step) { return whole_batch(1 + step, step); };
    EXPECT_ERROR(steps_of(TinyGpt2(), JobOptions(), 40, growing), WEFT_FAILED_PRECONDITION,
                 "enable_cuda_graph: there have been 16 kinds", "input_ids Long (19, ");
  });
}

}  // namespace

}  // namespace weft::test
