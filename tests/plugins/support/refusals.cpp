#include "plugins/support/refusals.hpp"

#include <functional>

#include "apply/apply.hpp"
#include "booster/chosen_strategy.hpp"
#include "comm/group.hpp"
#include "mesh/mesh.hpp"
#include "opening/model_plan.hpp"
#include "training/stages.hpp"
#include "training/strategy.hpp"
#include "weft/error.hpp"

namespace weft::test {

namespace {

// Returns the text of the Error that `action` throws, or "".
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void make_mesh(const JobOptions& options, int ranks) {
  const BoosterOptions booster = booster_options_of(options);
  const ChosenStrategy chosen = choose_strategy(booster);
  const std::string precision = resolve_precision(booster);
  const Strategy strategy(chosen.api,
                          strategy_arguments(chosen.name, chosen.options.data(), chosen.options.size(), ranks,
                                             /*rank=*/0, precision));
  described_mesh(*chosen.api, strategy.handle(), chosen.name, static_cast<uint32_t>(ranks),
                 chosen.host.plan_flags.tensor, chosen.host.pipeline.size);
}

void apply_plan(const Case& job) {
  const Model model = job.trial.model(job.options);
  const HostOptions host = choose_strategy(booster_options_of(job.options)).host;
  const plan::ParallelSizes& sizes = host.plan_flags;
  divide_model(model.module(), host.pipeline);
  std::string policy;
  parallel::AppliedPlan applied(model.module(), make_plan(model.module(), sizes, host.custom_policy, &policy),
                                comm::absent_ranks(sizes.tensor), comm::absent_ranks(sizes.sequence));
  applied.lift();
}

}  // namespace

std::string refusal(const Case& job) {
  return error_of([&] { apply_plan(job); });
}

std::string refusal(const Case& job, int ranks) {
  const std::string of_mesh = error_of([&] { make_mesh(job.options, ranks); });
  return of_mesh.empty() ? refusal(job) : of_mesh;
}

void expect_refusals(const std::vector<std::pair<Case, std::string>>& refused, int ranks) {
  if (refused.empty()) return;
  on_ranks({ranks}, [&](World& world) {
    for (const auto& [job, reason] : refused) {
      const std::string found =
          error_of([&, j = &job] { boost(world, j->trial.model(j->options), j->options); });
      EXPECT_NE(found.find(reason), std::string::npos)
          << job.name << " " << job.options.strategy << " " << job.options.options << " was refused with "
          << (found.empty() ? "nothing" : found) << "\nwithout ranks with " << reason;
    }
    world.communicator().barrier();
  });
}

}  // namespace weft::test
