// Training states of the simulated accelerator: saved, resumed there and on the CPU, and taken over by
// another strategy.
#include <ATen/Context.h>

#include <cstdlib>

#include "plugins/support/parity.hpp"
#include "policies/gpt2/gpt2_trial.hpp"
#include "sim/training/sim_ranks.hpp"
#include "support/expect_error.hpp"
#include "support/slice.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

constexpr int64_t kSteps = 3;  // before and after the moment of the test

struct Chosen {
  const char *strategy, *options;
};
const Chosen kChosen[] = {{"torch_ddp", "{}"},
                          {"torch_fsdp", "{}"},
                          {"low_level_zero", R"({"stage": 2})"},
                          {"gemini", "{}"},
                          {"gemini", R"({"placement_policy": "static", "offload_optim_frac": 1})"},
                          {"hybrid_parallel", R"({"tp_size": 2})"},
                          {"hybrid_parallel", R"({"pp_size": 2, "num_microbatches": 2})"},
                          {"hybrid_parallel", R"({"zero_stage": 1, "cpu_offload": true})"}};

JobOptions options_of(const Chosen& chosen, const std::string& precision = "fp64") {
  return {.strategy = chosen.strategy, .options = chosen.options, .precision = precision};
}

Job make(const World& world, const JobOptions& options) {
  const Trial trial = gpt2_trial("GPT2LMHeadModel", options.precision);
  return boost(world, trial.model(options), options, "adamw");
}

std::vector<double> train(Job& job, int64_t first, int64_t steps = kSteps) {
  std::vector<double> losses;
  for (int64_t step = first; step < first + steps; ++step)
    losses.push_back(job.train_step(own_part(gpt2_batch(6, step), job)).loss);
  return losses;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-8 * expected[i]) << i;
}

TEST(SimState, IsResumedThereToTheSameBitsAndOnTheCpu) {
  for (const Chosen& chosen : slice("SimState", kChosen, 2)) {
    SCOPED_TRACE(chosen.options);
    const TemporaryFolder folder;
    const std::string saved = folder.path() + "/saved";
    on_sim_ranks(2, [&](World& world) {
      const JobOptions options = options_of(chosen);
      std::vector<double> expected;
      {
        const OnSim sim(world);
        Booster booster(booster_options_of(options), world);
        Job job = make(world, options);
        train(job, 0);
        booster.save_training(job, saved, {.background = true});
        expected = train(job, kSteps);
        booster.finish_saving();
        Job resumed = make(world, options);
        booster.load_training(resumed, saved);
        EXPECT_EQ(resumed.optimizer.steps(), kSteps);
        EXPECT_EQ(train(resumed, kSteps), expected);
        expect_equal(published_values(resumed), published_values(job));
      }
      Booster booster(booster_options_of(options), world);
      Job on_cpu = make(world, options);
      booster.load_training(on_cpu, saved);
      expect_near(train(on_cpu, kSteps), expected);
    });
  }
}

TEST(SimState, IsResumedFromTheCpu) {
  for (const Chosen& chosen : slice("SimState of the CPU", kChosen, 1)) {
    SCOPED_TRACE(chosen.options);
    const TemporaryFolder folder;
    const std::string saved = folder.path() + "/saved";
    on_sim_ranks(2, [&](World& world) {
      const JobOptions options = options_of(chosen);
      std::vector<double> expected;
      {
        Job job = make(world, options);
        train(job, 0);
        Booster(booster_options_of(options), world).save_training(job, saved);
        expected = train(job, kSteps);
      }
      const OnSim sim(world);
      Job resumed = make(world, options);
      Booster(booster_options_of(options), world).load_training(resumed, saved);
      expect_near(train(resumed, kSteps), expected);
    });
  }
}

TEST(SimState, IsDeterministicAndInTf32ByOption) {
  on_sim_ranks(2, [&](World& world) {
    const OnSim sim(world);
    BoosterOptions options = booster_options_of({.strategy = "torch_ddp"});
    options.deterministic = options.allow_tf32 = true;
    setenv("WEFT_SIM_WORKSPACE", "none", 1);
    EXPECT_ERROR(Booster(options, world), WEFT_FAILED_PRECONDITION,
                 "environment variable WEFT_SIM_WORKSPACE is \"none\"", ":4096:8 or :16:8");
    unsetenv("WEFT_SIM_WORKSPACE");
    const auto values = [&] {
      Booster booster(options, world);
      Model model = gpt2_trial("GPT2LMHeadModel", "fp32").model({});
      optim::Optimizer optimizer("adamw", model.parameters());
      Job job = booster.boost(std::move(model), std::move(optimizer));
      train(job, 0);
      return published_values(job);
    };
    const Tensors first = values();
    expect_equal(values(), first);
    EXPECT_STREQ(getenv("WEFT_SIM_WORKSPACE"), ":4096:8");
    EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
    EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
    options.allow_tf32 = false;
    EXPECT_ERROR(Booster(options, world), WEFT_FAILED_PRECONDITION, "allow_tf32 is false", "an earlier");
  });
}

// From each drawn strategy to the next one, and back to the first.
TEST(SimTakeOver, GoesOnAsIfNothingHadHappened) {
  std::vector<Chosen> chosen = slice("SimTakeOver", kChosen, 4);
  chosen.push_back(chosen.front());
  on_sim_ranks(2, [&](World& world) {
    const OnSim sim(world);
    const int64_t all = kSteps * static_cast<int64_t>(chosen.size());
    Job whole = make(world, options_of(kChosen[0]));
    const std::vector<double> expected = train(whole, 0, all);
    Job job = make(world, options_of(chosen.front()));
    std::vector<double> losses;
    for (size_t i = 0; i < chosen.size(); ++i) {
      SCOPED_TRACE(chosen[i].options);
      if (i > 0) Booster(booster_options_of(options_of(chosen[i])), world).take_over(job);
      for (const double loss : train(job, kSteps * static_cast<int64_t>(i))) losses.push_back(loss);
    }
    expect_near(losses, expected);
  });
}

}  // namespace

}  // namespace weft::test
