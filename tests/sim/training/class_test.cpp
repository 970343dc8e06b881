// The classes of a family (policies/class_cases.hpp) on the simulated accelerator: in every way to train
// them, the gradients and values of the same ranks on the CPU; one wait of the host in a step; and as graphs
// what eager steps compute.
#include "base/text.hpp"
#include "plugins/support/refusals.hpp"
#include "policies/class_cases.hpp"
#include "policies/trials.hpp"
#include "sim/training/sim_results.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

TEST(SimClasses, HaveTheGradientsAndValuesOfTheCpu) {
  std::map<int, std::vector<Case>> trained;
  for (const ClassCase& drawn : slice(fmt::format("SimClasses {}", kFamily), class_cases(), 5))
    if (refusal(drawn.job).empty()) trained[drawn.ranks].push_back(drawn.job);
  expect_results_of_the_cpu(trained);
}

// In an eager step the host waits once, to read the loss. A graph cannot repeat what the host draws.
TEST(SimClasses, WaitOnceInAStepAndAreCapturedAsGraphs) {
  on_sim_ranks(1, [&](World& world) {
    const OnSim sim(world);
    const FamilyTrials trials = family_trials();
    std::vector<TinyTrial> models = slice(fmt::format("SimClasses graphs {}", kFamily), trials.models, 3);
    models.insert(models.end(), trials.packed.begin(), trials.packed.end());
    for (const TinyTrial& tiny : models) {
      SCOPED_TRACE(tiny.name);
      const Trial trial = tiny.trial("fp32");
      const auto model = [&] { return trial.model({}); };
      const Trained eager =
          tiny.draws_for_samples
              ? train_steps(world, sim, model(), {}, /*graphs=*/false, trial.batch)
              : expect_eager(world, sim, model, {}, trial.batch, 1e-5, trial.without_gradient);
      EXPECT_EQ(eager.waits.back(), 1);
      const JobOptions half = {
          .strategy = "low_level_zero", .options = R"({"initial_scale": 1})", .precision = "fp16"};
      EXPECT_EQ(train_steps(world, sim, trial.model(half), half, /*graphs=*/false, trial.batch).waits.back(),
                1)
          << "in fp16";
    }
  });
}

}  // namespace

}  // namespace weft::test
