#include "sim/training/sim_results.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "device/random.hpp"
#include "sim/sim_device.hpp"

namespace weft::test {

namespace {

// Each launch of ranks has a time limit, and so runs a few cases.
constexpr size_t kLaunch = 6;

// Expects replays. The first steps compare ranks and run eagerly; the update is not part of a graph. Of
// packed documents such a step masks what an eager one leaves out document by document, in fewer launches.
void expect_replays(const Trained& found, const Trained& eager) {
  const int64_t run = std::min<int64_t>(found.launches[2], eager.launches[2]);
  EXPECT_LT(*std::min_element(found.launches.begin(), found.launches.end()), run - 60);
}

}  // namespace

void expect_results_of_the_cpu(const std::vector<Case>& cases, int ranks, bool exactly) {
  for (size_t begin = 0; begin < cases.size(); begin += kLaunch) {
    const std::vector<Case> some(
        cases.begin() + static_cast<std::ptrdiff_t>(begin),
        cases.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kLaunch, cases.size())));
    std::string texts;
    for (const Case& one : some) texts += "\n  " + describe(one);
    // Here, because a rank that hangs or crashes tells of no case.
    SCOPED_TRACE(fmt::format("on {} ranks:{}", ranks, texts));
    on_sim_ranks(ranks, [&](World& world) {
      for (const Case& one : some) {
        SCOPED_TRACE(describe(one));
        const TrialOutcome expected = outcome_of(world, one.options, one.trial);
        const OnSim sim(world);
        const double tolerance = exactly ? 0 : tolerance_of(one.trial, one.options.precision);
        expect_outcome(outcome_of(world, one.options, one.trial), expected, one.trial, tolerance);
      }
    });
  }
}

void expect_results_of_the_cpu(const std::map<int, std::vector<Case>>& cases, bool exactly) {
  for (const auto& [ranks, some] : cases) expect_results_of_the_cpu(some, ranks, exactly);
}

Job graph_job(const World& world, Model model, JobOptions options, bool graphs, const std::string& rule,
              double rate) {
  BoosterOptions chosen = booster_options_of(options);
  chosen.enable_cuda_graph = graphs;
  optim::Optimizer optimizer(rule, model.parameters(), {{"lr", rate}});
  return Booster(chosen, world).boost(std::move(model), std::move(optimizer));
}

Trained train_steps(const World& world, const OnSim& sim, Model model, const JobOptions& options, bool graphs,
                    const Batches& batch_of, const std::string& rule) {
  at::manual_seed(4);
  Job job = graph_job(world, std::move(model), options, graphs, rule);
  Trained trained;
  for (int step = 0; step < kGraphSteps; ++step) {
    const Batch batch = batch_of(step);
    sim::reset_counters(sim.index());
    trained.losses.push_back(job.train_step(batch).loss);
    trained.launches.push_back(sim::counters(sim.index()).launches);
    trained.waits.push_back(sim::counters(sim.index()).host_waits);
    trained.updates.push_back(job.optimizer.steps());
  }
  trained.values = published_values(job);
  trained.random = device::random_state();
  return trained;
}

Trained expect_eager(const World& world, const OnSim& sim, const std::function<Model()>& model,
                     const JobOptions& options, const Batches& batch_of, double tolerance,
                     const std::vector<std::string>& without_gradient) {
  const std::string rule = tolerance == 0 ? "adamw" : "sgd";
  Trained eager = train_steps(world, sim, model(), options, false, batch_of, rule);
  Trained found = train_steps(world, sim, model(), options, true, batch_of, rule);
  for (const std::string& name : without_gradient)
    for (Tensors* const values : {&eager.values, &found.values}) values->erase(name);
  EXPECT_EQ(found.updates, eager.updates);
  EXPECT_GE(eager.updates.back(), kGraphSteps - 1);
  for (int step = 0; step < kGraphSteps; ++step)
    EXPECT_NEAR(found.losses[step], eager.losses[step], tolerance * eager.losses[step]) << step;
  expect_near(found.values, eager.values, tolerance);
  EXPECT_TRUE(at::equal(found.random, eager.random));
  expect_replays(found, eager);
  return eager;
}

}  // namespace weft::test
