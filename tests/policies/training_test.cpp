// Trains the models of a family (trials.hpp) on tensor axes, in all sequence modes and under every strategy,
// against one rank.
#include <map>

#include "base/text.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/trials.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

// Each launch of ranks has a time limit.
void expect_gradients_in_launches(const std::vector<Case>& cases, int ranks) {
  constexpr size_t kLaunch = 12;
  for (size_t begin = 0; begin < cases.size(); begin += kLaunch) {
    const size_t end = std::min(begin + kLaunch, cases.size());
    expect_gradients_of_one_rank({cases.begin() + begin, cases.begin() + end}, ranks);
  }
}

// Whole sequences and split ones.
class Layouts : public testing::TestWithParam<Split> {
 protected:
  // Returns the name of a slice of cases.
  static std::string named(const char* what) {
    return fmt::format("{} {} {}{}", kFamily, what, GetParam().mode, GetParam().axes);
  }
};

// No number of ranks divides the positions.
TEST_P(Layouts, HaveTheGradientsOfOneRank) {
  std::vector<Case> cases;
  for (const TinyTrial& model : family_trials().models)
    for (const std::string& precision : model.precisions)
      for (const char* recompute : {"off", "all"}) {
        cases.push_back({laid_out(GetParam(), precision), model.trial(precision), model.name});
        cases.back().options.recompute = recompute;
      }
  expect_gradients_in_launches(slice(named("models"), cases, 4), GetParam().ranks);
}

// Outputs are replicated, so a gradient that enters there counts once.
Tensors criterion_gradients(const World& world, const JobOptions& options, const Trial& trial) {
  const Criterion criterion = [](const State& outputs, const Batch&) {
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (const auto& [name, output] : outputs)
      sum = sum + (output * at::linspace(-1, 1, output.size(-1), output.options())).mean();
    return sum;
  };
  BoosterOptions chosen;
  chosen.strategy = options.strategy;
  chosen.options = options.options;
  chosen.precision = options.precision;
  const Model model = trial.model(options);
  Job job = Booster(chosen, world).boost(model, optim::SGD(model.parameters(), {.lr = 1}), criterion);
  job.accumulate_gradients(trial.batch(0));
  Tensors gradients = published_gradients(job);
  for (const std::string& name : trial.without_gradient) gradients.erase(name);
  return gradients;
}

TEST_P(Layouts, HaveTheGradientsOfOneRankUnderACriterionOfABaseModel) {
  for (const TinyTrial& base : family_trials().bases) {
    const Trial trial = base.trial("fp64");
    const Tensors expected = criterion_gradients(one_rank(), {.precision = "fp64"}, trial);
    on_ranks({GetParam().ranks}, [&](World& world) {
      SCOPED_TRACE(base.name);
      expect_near(criterion_gradients(world, laid_out(GetParam()), trial), expected, trial.tolerance);
      world.communicator().barrier();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Whole, Layouts,
                         testing::ValuesIn(slice(std::string("Wholes ") + kFamily, kWholes, 1)), name_of);
INSTANTIATE_TEST_SUITE_P(Split, Layouts,
                         testing::ValuesIn(slice(std::string("Layouts ") + kFamily, kSplits, 2)), name_of);

class Strategies : public testing::TestWithParam<const char*> {};

TEST_P(Strategies, HaveTheGradientsOfOneRankWithAndWithoutATensorAxis) {
  struct Ranks {
    const char* options;
    int ranks;
    std::string precision;
  };
  const TinyTrial model = family_trials().models.front();
  std::vector<Ranks> all;
  for (const std::string& precision : model.precisions)
    for (const auto& [options, ranks] :
         {std::pair{"{}", 3}, std::pair{R"({"tp_size": 2})", 2}, std::pair{R"({"tp_size": 2})", 4}})
      all.push_back({options, ranks, precision});
  std::map<int, std::vector<Case>> cases;
  for (const auto& [options, ranks, precision] : slice(fmt::format("{} {}", kFamily, GetParam()), all, 2))
    cases[ranks].push_back({{.strategy = GetParam(), .options = options, .precision = precision},
                            model.trial(precision),
                            model.name});
  for (const auto& [ranks, of_ranks] : cases) expect_gradients_of_one_rank(of_ranks, ranks);
}

constexpr const char* kStrategies[] = {"torch_ddp", "low_level_zero", "torch_fsdp", "gemini"};
INSTANTIATE_TEST_SUITE_P(All, Strategies,
                         testing::ValuesIn(slice(std::string("Strategies ") + kFamily, kStrategies, 2)),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace

}  // namespace weft::test
