#include "contract/strategy.hpp"

#include <filesystem>
#include <optional>

#include "base/text.hpp"
#include "booster/chosen_strategy.hpp"
#include "contract/merging.hpp"
#include "contract/ranks.hpp"
#include "contract/scratch.hpp"

namespace weft::contract {

namespace {

constexpr int64_t kSteps = 6, kClippedStep = 1;  // from 0
constexpr double kClip = 0.05;

// What a case trains.
struct Steps {
  int64_t first = 0, last = kSteps;
  std::string load, save;  // folders; empty: none. The first saves after half of the steps.
};

// What one rank without a strategy makes of the model, in one precision.
struct Reference {
  struct Step {
    double loss = 0, norm = 0;
    Tensors gradients, clipped, values;  // the values after the step
  };
  Tensors initial;
  std::vector<Step> steps;
  double evaluated = 0;
  // The gradients of a loop of the caller's own, at the initial values: after two backwards, after a third.
  Tensors two, three;

  const Tensors& before(int64_t step) const { return step == 0 ? initial : steps[step - 1].values; }
};

Reference make_reference(const std::string& precision) {
  TinyJob alone = boost(launch(0, 1, "localhost", 1), {.precision = precision});
  Bindings& bindings = alone.bindings();
  Reference reference;
  reference.initial = published(bindings, &Shard::value);
  for (int64_t step = 0; step < 3; ++step) {
    alone.job.accumulate_gradients(alone.batch(step));
    if (step == 1) reference.two = published(bindings, &Shard::gradient);
  }
  reference.three = published(bindings, &Shard::gradient);
  alone.job.optimizer.zero_grad();
  for (int64_t step = 0; step < kSteps; ++step) {
    Reference::Step& made = reference.steps.emplace_back();
    made.loss = alone.job.accumulate_gradients(alone.batch(step));
    made.gradients = published(bindings, &Shard::gradient);
    if (step == kClippedStep) made.norm = alone.job.optimizer.clip_grad_by_norm(kClip);
    made.clipped = published(bindings, &Shard::gradient);
    alone.job.optimizer.step();
    made.values = published(bindings, &Shard::value);
    alone.job.optimizer.zero_grad();
  }
  reference.evaluated = alone.job.evaluate(alone.batch(0)).loss();
  return reference;
}

void check_step(TinyJob& tiny, const Reference& reference, int64_t step, const Tolerances& allowed,
                Findings& findings) {
  Bindings& bindings = tiny.bindings();
  const Reference::Step& right = reference.steps[step];
  const auto in_step = [&](const std::string& problem) {
    return problem.empty() ? "" : fmt::format("step {}, {}", step + 1, problem);
  };
  tiny.model->take_seen();
  const double loss = tiny.job.accumulate_gradients(tiny.batch(step));
  findings.look(kLayers, in_step(seen_difference(*tiny.model, reference.before(step), allowed.values)));
  findings.look("the loss is that of one rank",
                in_step(difference("the loss", loss, right.loss, allowed.values)));
  findings.look(
      "published gradients are the sums over the ranks",
      in_step(published_difference(bindings, &Shard::gradient, right.gradients, allowed.gradients)));
  if (step == kClippedStep) {
    const double norm = tiny.job.optimizer.clip_grad_by_norm(kClip);
    findings.look("the norm of the gradients is that of one rank",
                  in_step(difference("the norm", norm, right.norm, allowed.gradients)));
    findings.look(
        "what is written into a published gradient is there when it is published again",
        in_step(published_difference(bindings, &Shard::gradient, right.clipped, allowed.gradients)));
  }
  tiny.job.optimizer.step();
  findings.look("published values are those of one rank after each update",
                in_step(published_difference(bindings, &Shard::value, right.values, allowed.values)));
  check_zeroed(tiny, right.gradients, step, findings);
}

void train(const World& world, const Run& run, const Steps& steps, const Reference& reference,
           Findings& findings) {
  const Tolerances allowed = tolerances(run.precision);
  TinyJob tiny = boost(world, run);
  if (steps.load.empty()) {
    findings.look(kBegins,
                  published_difference(tiny.bindings(), &Shard::value, reference.initial, allowed.values));
    check_written(tiny, reference.initial, allowed, findings);
  } else {
    tiny.booster.load_training(tiny.job, steps.load);
    findings.look(
        "published values are those that were saved",
        published_difference(tiny.bindings(), &Shard::value, reference.before(steps.first), allowed.values));
  }
  for (int64_t step = steps.first; step < steps.last; ++step) {
    if (on_any_rank(world, findings.failed())) return;
    check_step(tiny, reference, step, allowed, findings);
    if (!steps.save.empty() && step + 1 == kSteps / 2) tiny.booster.save_training(tiny.job, steps.save);
  }
  if (steps.last < kSteps || on_any_rank(world, findings.failed())) return;
  tiny.model->take_seen();
  const double evaluated = tiny.job.evaluate(tiny.batch(0)).loss();
  findings.look(kLayers, seen_difference(*tiny.model, reference.steps.back().values, allowed.values));
  findings.look("the loss of an evaluation is that of one rank",
                difference("the loss", evaluated, reference.evaluated, allowed.values));
}

// Several backwards before one update, the first of them without communication.
void accumulate(const World& world, const Run& run, const Reference& reference, Findings& findings) {
  constexpr const char* kSums = "gradients of several backwards add up, and each counts once";
  const Tolerances allowed = tolerances(run.precision);
  TinyJob tiny = boost(world, run);
  const auto look = [&](const char* when, const Tensors& expected) {
    const std::string problem =
        published_difference(tiny.bindings(), &Shard::gradient, expected, allowed.gradients);
    findings.look(kSums, problem.empty() ? "" : fmt::format("{}, {}", when, problem));
  };
  tiny.job.accumulate_gradients(tiny.batch(0), /*synchronise=*/false);
  tiny.job.accumulate_gradients(tiny.batch(1));
  look("after one without and one with synchronise", reference.two);
  if (on_any_rank(world, findings.failed())) return;
  tiny.job.accumulate_gradients(tiny.batch(2));
  look("after a second one with synchronise", reference.three);
}

// Returns fp64, or fp32 if the strategy refuses that.
std::string widest_precision(const Run& run) {
  const auto takes = [&](const std::string& precision) {
    BoosterOptions options;
    options.strategy = run.strategy;
    options.options = run.options;
    options.precision = precision;
    try {
      choose_strategy(options);
      return true;
    } catch (const Error& error) {
      if (error.status() != WEFT_INVALID_ARGUMENT && error.status() != WEFT_UNIMPLEMENTED) throw;
      return false;
    }
  };
  return takes("fp64") ? "fp64" : "fp32";
}

}  // namespace

void check_strategy(const std::string& name, const std::string& options, const Tell& tell) {
  Run run{.strategy = name, .options = options};
  run.precision = widest_precision(run);
  if (trains_alone(run)) return check_merging(run, tell);
  const Reference reference = make_reference(run.precision);
  const Scratch scratch;
  const auto trains = [&](const Case& one, const Run& how, const Steps& steps, const Reference& right) {
    return run_case(
        one, [&](const World& world, Findings& findings) { train(world, how, steps, right, findings); },
        tell);
  };
  const std::string saved = scratch.path("saved");
  // What fails here would fail in the other cases, too, and a hang takes its time in each.
  if (trains({"2 ranks", 2}, run, {.save = saved}, reference) != Outcome::kPassed) return;
  trains({"3 ranks, what 2 saved", 3}, run, {.first = kSteps / 2, .load = saved}, reference);
  Run accumulated = run;
  accumulated.accumulate = 2;
  trains({"3 ranks, 2 micro-batches", 3, true}, accumulated, {}, reference);
  run_case(
      {"2 ranks, a loop of the caller's own", 2, true},
      [&](const World& world, Findings& findings) { accumulate(world, run, reference, findings); }, tell);
  Run recomputed = run;
  recomputed.recompute = "all";
  trains({"2 ranks, recomputation", 2, true}, recomputed, {.last = 2}, reference);
  Run half = run;
  half.precision = "bf16";
  trains({"2 ranks, bf16", 2, true}, half, {.last = 4}, make_reference("bf16"));
}

}  // namespace weft::contract
