// The flags that choose the form of layers, in a family's models with dropout: both forms have the same
// losses and gradients.
#include "base/text.hpp"
#include "policies/trials.hpp"
#include "support/slice.hpp"
#include "weft/nn/layers.hpp"

namespace weft::test {

namespace {

constexpr const char* kStrategies[] = {"hybrid_parallel", "torch_ddp", "low_level_zero", "torch_fsdp",
                                       "gemini"};
// Each flag and the kinds of layers that follow it.
const std::map<std::string, std::vector<std::string>> kFlags = {
    {"enable_fused_normalization", {"LayerNorm", "RMSNorm"}},
    {"enable_jit_fused", {"Activation", "Dropout"}}};

JobOptions with_flag(const std::string& flag, bool value, int ranks, const std::string& precision) {
  return {.strategy = "hybrid_parallel",
          .options = fmt::format(R"({{"tp_size": {}, "{}": {}}})", ranks, flag, value),
          .precision = precision};
}

struct Outcome {
  double loss;
  Tensors gradients;
};

// In training, with the masks of one seed.
Outcome outcome(const World& world, const Trial& form, const JobOptions& options) {
  Job job = boost(world, form.model(options), options);
  const double loss = job.accumulate_gradients(own_part(form.batch(0), job));
  Tensors gradients = published_gradients(job);
  for (const std::string& name : form.without_gradient) gradients.erase(name);
  return {loss, gradients};
}

class Flags : public testing::TestWithParam<std::string> {};

// Returns the name of a slice of cases.
std::string named(const char* what, const std::string& flag) {
  return fmt::format("{} {} {}", kFamily, what, flag);
}

TEST_P(Flags, BothFormsHaveTheSameLossAndGradients) {
  struct Form {
    TinyTrial form;
    std::string precision;
    int ranks;
  };
  std::vector<Form> all;
  for (const TinyTrial& form : family_trials().forms)
    for (const std::string& precision : form.precisions)
      for (const int ranks : {1, 2}) all.push_back({form, precision, ranks});
  for (const Form& drawn : slice(named("forms", GetParam()), all, 2))
    on_ranks({drawn.ranks}, [&](World& world) {
      const double tolerance = drawn.precision == "fp32" ? kGradientFp32 : kGradientFp64;
      SCOPED_TRACE(drawn.form.name + " " + drawn.precision);
      const auto with = [&](bool fused) {
        return outcome(world, drawn.form.trial(drawn.precision),
                       with_flag(GetParam(), fused, world.size(), drawn.precision));
      };
      const Outcome fused = with(true), plain = with(false);
      EXPECT_NEAR(fused.loss, plain.loss, tolerance * plain.loss);
      expect_near(fused.gradients, plain.gradients, tolerance);
    });
}

void expect_form(const World& world, const std::string& strategy, const std::string& flag, bool value) {
  JobOptions options = with_flag(flag, value, world.size(), "fp32");
  options.strategy = strategy;
  const std::vector<std::string>& kinds = kFlags.at(flag);
  for (const TinyTrial& form : family_trials().forms) {
    const Job job = boost(world, form.trial("fp32").model(options), options);
    size_t chosen = 0;
    for (const auto& item : job.model.module().named_modules()) {
      const auto layer = std::dynamic_pointer_cast<nn::Fusible>(item.value());
      if (!layer) continue;
      const bool follows = std::count(kinds.begin(), kinds.end(), layer->kind()) > 0;
      EXPECT_EQ(layer->fused, value || !follows) << strategy << " " << item.key();
      chosen += follows;
    }
    EXPECT_GT(chosen, 0u) << form.name;
  }
}

TEST_P(Flags, ChooseTheFormOfTheirLayersUnderEveryStrategy) {
  std::vector<std::pair<std::string, int>> all;
  for (const char* strategy : kStrategies)
    for (const int ranks : {1, 2}) all.emplace_back(strategy, ranks);
  for (const auto& [strategy, ranks] : slice(named("strategies", GetParam()), all, 2))
    on_ranks({ranks}, [&, &strategy = strategy](World& world) {
      for (const bool value : {false, true}) expect_form(world, strategy, GetParam(), value);
    });
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& [name, kinds] : kFlags) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, Flags, testing::ValuesIn(names()), [](const auto& info) { return info.param; });

}  // namespace

}  // namespace weft::test
