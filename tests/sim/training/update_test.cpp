// Updates whose norm the host has yet to read: clipping, and steps that an overflow skips.
#include "plugins/support/parity.hpp"
#include "sim/sim_device.hpp"
#include "sim/training/sim_ranks.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

// Returns what the device is given in the third step after the host has waited for it.
int64_t launches_after_wait(const World& world, c10::DeviceIndex index, const JobOptions& options,
                            const std::string& rule) {
  Model model = tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4, .layers = 2});
  optim::Optimizer optimizer(rule, model.parameters(), {{"lr", 1e-3}});
  Job job = boost(world, std::move(model), options, std::move(optimizer));
  const Batch batch = own_part(gpt2_batch(6, 1), job);
  for (int step = 0; step < 2; ++step) job.train_step(batch);
  sim::synchronise(index);
  sim::reset_counters(index);
  const StepResult result = job.train_step(batch);
  EXPECT_TRUE(result.updated);
  EXPECT_EQ(result.grad_norm.has_value(), options.max_grad_norm > 0);
  // One more for each round of sums that follow from the update.
  const std::map<std::string, int64_t> more = {{"lamb", 1}, {"adafactor", 1}, {"came", 2}};
  EXPECT_EQ(sim::counters(index).host_waits, 1 + (more.contains(rule) ? more.at(rule) : 0)) << rule;
  return sim::counters(index).launches_after_wait;
}

TEST(SimUpdate, IsLaunchedBeforeTheHostWaits) {
  for (const int ranks : {1, 2})
    on_sim_ranks(ranks, [](World& world) {
      const OnSim sim(world);
      const std::vector<JobOptions> jobs = {{.strategy = "torch_ddp"},
                                            {.strategy = "torch_fsdp"},
                                            {.strategy = "gemini"},
                                            {.strategy = "low_level_zero",
                                             .options = R"({"precision": "fp16", "initial_scale": 256})",
                                             .precision = "fp16"}};
      for (const JobOptions& plain : jobs) {
        SCOPED_TRACE(plain.strategy);
        const auto launches = [&](double max_norm, const std::string& rule) {
          JobOptions options = plain;
          options.max_grad_norm = max_norm;
          return launches_after_wait(world, sim.index(), options, rule);
        };
        const int64_t least = launches(0, "adamw");
        for (const char* rule : {"adamw", "sgd", "lion"}) EXPECT_EQ(launches(0.01, rule), least) << rule;
        for (const char* rule : {"lamb", "adafactor", "came"})
          EXPECT_GT(launches(0.01, rule), least) << rule << ": its rates depend on norms that the host reads";
      }
    });
}

// With axes besides the data axis, parts of parameters and stages with other ones.
TEST(SimUpdate, ClipsByTheNormOfTheCpu) {
  const std::vector<JobOptions> jobs = {
      {.strategy = "torch_ddp"},
      {.strategy = "gemini"},
      {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})"},
      {.strategy = "hybrid_parallel", .options = R"({"pp_size": 2, "num_microbatches": 2})"},
      {.strategy = "hybrid_parallel", .options = R"({"zero_stage": 1})"},
      {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2, "max_norm": 0.05, "norm_type": "inf"})"}};
  on_sim_ranks(2, [&](World& world) {
    for (JobOptions options : jobs) {
      SCOPED_TRACE(options.strategy + options.options);
      options.precision = "fp64";
      if (options.options.find("max_norm") == std::string::npos) options.max_grad_norm = 0.05;
      const auto train = [&] {
        Job job = boost(world, tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4}),
                        options, "adamw");
        std::vector<double> norms;
        for (int step = 0; step < 3; ++step)
          norms.push_back(*job.train_step(own_part(gpt2_batch(6, step), job)).grad_norm);
        return std::pair(norms, published_values(job));
      };
      const auto [expected, expected_values] = train();
      const OnSim sim(world);
      const auto [found, values] = train();
      for (size_t step = 0; step < expected.size(); ++step) {
        EXPECT_GT(expected[step], 0.05);
        EXPECT_NEAR(found[step], expected[step], 1e-10 * expected[step]);
      }
      for (const auto& [name, value] : expected_values)
        EXPECT_TRUE(is_near(values.at(name).cpu(), value, 1e-9)) << name;
    }
  });
}

// The slices of parameters are parts of rows and columns.
TEST(SimUpdate, KeepsTheMeansOfRowsAndColumnsOfTheCpu) {
  const std::vector<JobOptions> jobs = {{.strategy = "torch_ddp"},
                                        {.strategy = "low_level_zero"},
                                        {.strategy = "torch_fsdp"},
                                        {.strategy = "gemini"},
                                        {.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})"}};
  const std::vector<std::pair<std::string, optim::Hyper>> rules = {
      {"adafactor", {{"beta1", 0.9}, {"weight_decay", 0.1}}},
      {"adafactor", {}},
      {"came", {{"lr", 1e-3}, {"weight_decay", 0.1}}}};
  on_sim_ranks(2, [&](World& world) {
    for (JobOptions options : jobs)
      for (const auto& [rule, hyper] : rules) {
        SCOPED_TRACE(options.strategy + " " + rule);
        options.precision = "fp64";
        const bool splits = options.strategy == "hybrid_parallel";
        const auto train = [&, &rule = rule, &hyper = hyper] {
          Model model = splits ? tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4})
                               : toy(options, "\"gated\": false");
          optim::Optimizer optimizer(rule, model.parameters(), hyper);
          Job job = boost(world, std::move(model), options, std::move(optimizer));
          for (int64_t step = 0; step < 3; ++step)
            job.train_step(own_part(splits ? gpt2_batch(6, step) : toy_batch(7, step), job));
          return published_values(job);
        };
        const auto expected = train();
        const OnSim sim(world);
        // The gradient of a bias of keys is only what rounding leaves, of which these rules make whole steps.
        for (const auto& [name, value] : train())
          if (!name.ends_with("c_attn.bias"))
            EXPECT_TRUE(is_near(value.cpu(), expected.at(name), splits ? 1e-7 : 1e-9)) << name;
      }
  });
}

struct Outcome {
  std::vector<StepResult> results;
  Tensors values;
  std::string states;
};

// Trains with overflows on the last rank.
Outcome train(const World& world, const std::string& rule, const optim::Hyper& hyper, double max_norm) {
  JobOptions options = {.strategy = "torch_ddp", .options = R"({"find_unused_parameters": true})"};
  options.mixed_precision = R"({"name": "fp16", "init_scale": 1024, "growth_interval": 2})";
  options.max_grad_norm = max_norm;
  Model model = toy();
  optim::Optimizer optimizer(rule, model.parameters(), hyper);
  Job job = boost(world, std::move(model), options, std::move(optimizer));
  int64_t step = 0;
  job.criterion = [&](const State& outputs, const Batch&) {
    const at::Tensor mean = outputs.at("logits").to(at::kFloat).square().mean();
    return (step == 0 || step == 3) && world.rank() + 1 == world.size() ? mean * 3e38 * 3e38 : mean;
  };
  Outcome outcome;
  for (; step < 6; ++step) outcome.results.push_back(job.train_step(toy_batch(2, 2 * step + world.rank())));
  EXPECT_EQ(job.optimizer.steps(), 4);
  for (const auto& [name, value] : values_of(job)) outcome.values[name] = value.cpu();
  return outcome;
}

TEST(SimUpdate, IsSkippedAfterAnOverflowAsOnTheCpu) {
  const std::vector<std::pair<std::string, optim::Hyper>> rules = {
      {"adamw", {{"lr", 1e-2}}},
      {"sgd", {{"lr", 1e-2}, {"momentum", 0.9}, {"dampening", 0.5}}},  // its first update is another one
      {"lion", {{"lr", 1e-2}}},
      {"lamb", {{"lr", 1e-2}}},
      {"adafactor", {}},
      {"came", {{"lr", 1e-3}}}};
  for (const int ranks : {1, 2})
    on_sim_ranks(ranks, [&](World& world) {
      for (const auto& [rule, hyper] : rules)
        for (const double max_norm : {0.0, 0.1}) {
          SCOPED_TRACE(fmt::format("{} {}", rule, max_norm));
          const Outcome expected = train(world, rule, hyper, max_norm);
          const OnSim sim(world);
          const Outcome found = train(world, rule, hyper, max_norm);
          expect_near(found.values, expected.values, 1e-3);
          for (size_t i = 0; i < found.results.size(); ++i) {
            SCOPED_TRACE(i);
            EXPECT_EQ(found.results[i].updated, i != 0 && i != 3);
            EXPECT_EQ(found.results[i].updated, expected.results[i].updated);
            EXPECT_EQ(found.results[i].loss_scale, expected.results[i].loss_scale);
            if (max_norm > 0 && found.results[i].updated)
              EXPECT_NEAR(*found.results[i].grad_norm / *expected.results[i].grad_norm, 1, 1e-2);
          }
        }
    });
}

}  // namespace

}  // namespace weft::test
