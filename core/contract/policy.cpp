#include "contract/policy.hpp"

#include <map>
#include <numeric>

#include "apply/describe_model.hpp"
#include "base/text.hpp"
#include "booster/host_options.hpp"
#include "contract/one_rank.hpp"
#include "contract/ranks.hpp"
#include "contract/small_model.hpp"
#include "opening/model_plan.hpp"
#include "opening/model_state.hpp"
#include "plan/builder.hpp"
#include "weft/booster.hpp"

namespace weft::contract {

namespace {

using nlohmann::json;

OpenModel opener(const SmallModel& small) {
  return [&small] { return small.open(kReferencePrecision); };
}

// Takes the first sample that the model learns from.
std::optional<Reference> find_reference(const SmallModel& small, std::string& problem) {
  for (const Sample& sample : small_samples(small.open(kReferencePrecision).module())) try {
      Reference reference = make_reference(opener(small), sample);
      const double loss = reference.steps.front().loss;
      if (std::isfinite(loss) && loss != 0) return reference;
      problem = fmt::format("its loss is {}", loss);
    } catch (const std::exception& exception) {
      problem = describe(exception).text;
    }
  if (problem.empty()) problem = "it says no example of a batch (Model::example)";
  return std::nullopt;
}

// Trains under several layouts of one number of ranks in one case, because forks take longer to start than a
// small model trains. What one of them breaks may break the others: then each gets a case of its own.
void run_layouts(const SmallModel& small, const std::vector<Layout>& layouts, const Reference& reference,
                 const Tell& tell) {
  const int ranks = layouts.front().ranks;
  std::vector<Check> checks;
  const auto together = [&](const World& world, Findings& findings) {
    for (const Layout& layout : layouts) {
      Findings own;
      compare_with_one_rank(world, opener(small), {.options = layout.options}, reference, own);
      for (const Check& check : own.checks()) findings.look(layout.title + ": " + check.name, check.text);
    }
  };
  const auto keep = [&](const Check& check) { checks.push_back(check); };
  const Case all = {fmt::format("{}, {} ranks", small.architecture, ranks), ranks};
  if (run_case(all, together, keep) == Outcome::kPassed) {
    for (const Check& check : checks) tell(check);
    return;
  }
  for (const Layout& layout : layouts)
    run_case(
        {fmt::format("{}, {} ranks: {}", small.architecture, ranks, layout.title), ranks},
        [&](const World& world, Findings& findings) {
          compare_with_one_rank(world, opener(small), {.options = layout.options}, reference, findings);
        },
        tell);
}

// Returns why the policy itself refuses the sizes, or "". What the host finds wrong in a plan is no refusal.
std::string refusal(const plan::ModelDescription& model, const plan::Policy& policy,
                    const plan::ParallelSizes& sizes) {
  std::vector<size_t> order(model.nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const plan::Recording recording = plan::record(model, order, policy, sizes);
  return recording.rejections.empty() ? recording.refusal : recording.rejections.front();
}

void check_class(const std::string& name, const SmallModel& small, const Tell& tell) {
  std::string problem, identity;
  const std::optional<Reference> reference = find_reference(small, problem);
  if (!reference) return tell({small.architecture + ": one rank trains it", false, problem});
  if (reference->sample.criterion) {
    const Check told = stand_in_for_loss(problem);
    tell({small.architecture + ": " + told.name, told.passed, told.text});
  }
  const Model model = small.open(kReferencePrecision);
  const plan::ModelDescription description = plan::describe_model(model.module());
  const plan::Policy policy = *find_policy(model.module(), name, &identity);
  std::map<int, std::vector<Layout>> layouts;  // by the number of ranks, which forks take longest to start
  for (Layout& layout : make_layouts()) {
    const std::string refused = refusal(description, policy, layout.sizes);
    if (!refused.empty()) {
      tell(
          {fmt::format("{}, {}: is refused by the policy", small.architecture, layout.title), true, refused});
      continue;
    }
    layout.options["custom_policy"] = name;
    if (reference->sample.criterion) layout.options["parallel_output"] = false;
    layouts[layout.ranks].push_back(std::move(layout));
  }
  for (const auto& [ranks, own] : layouts) run_layouts(small, own, *reference, tell);
  tell({small.architecture + ": is split in some layout", !layouts.empty(),
        layouts.empty() ? "the policy refuses every layout" : ""});
}

}  // namespace

void check_policy(const std::string& name, const std::string& config, const Tell& tell) {
  const Scratch scratch;
  for (const SmallModel& small : small_models(name, config, scratch)) check_class(name, small, tell);
}

}  // namespace weft::contract
