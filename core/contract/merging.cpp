#include "contract/merging.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/text.hpp"
#include "booster/chosen_strategy.hpp"
#include "contract/ranks.hpp"
#include "contract/scratch.hpp"

namespace weft::contract {

namespace {

constexpr int64_t kAlone = 3;  // updates before a merge, at most

// What one rank makes of the samples of one replica: gradients and losses are weighted by the part of all
// labels that it has.
struct Alone {
  struct Step {
    double loss = 0;
    Tensors gradients, values;  // the values after the step
  };
  Tensors initial;
  std::vector<Step> steps;
  const Tensors& before(size_t step) const { return step == 0 ? initial : steps[step - 1].values; }
};

double labels_in(const TinyModel& model, const Batch& batch) {
  double labels = 0;
  for (const nn::LossCount& count : model.counts(batch)) labels += count.count;
  return batch.empty ? 0 : labels;
}

Alone train_replica(const std::string& precision, int64_t rank, int64_t ranks) {
  TinyJob tiny = boost(launch(0, 1, "localhost", 1), {.precision = precision});
  Bindings& bindings = tiny.bindings();
  Alone alone;
  alone.initial = published(bindings, &Shard::value);
  for (int64_t step = 0; step < kAlone; ++step) {
    const Batch batch = own_part(tiny_batch(step), rank, ranks);
    const double part = labels_in(*tiny.model, batch) / labels_in(*tiny.model, tiny_batch(step));
    Alone::Step& made = alone.steps.emplace_back();
    made.loss = tiny.job.accumulate_gradients(batch) * part;
    const at::NoGradGuard no_grad;
    for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK))
      if (shard.gradient.defined()) at::Tensor(shard.gradient).mul_(part * static_cast<double>(ranks));
    made.gradients = published(bindings, &Shard::gradient);
    tiny.job.optimizer.step();
    made.values = published(bindings, &Shard::value);
    tiny.job.optimizer.zero_grad();
  }
  return alone;
}

std::vector<Alone> train_replicas(const std::string& precision, int64_t ranks) {
  std::vector<Alone> all;
  for (int64_t rank = 0; rank < ranks; ++rank) all.push_back(train_replica(precision, rank, ranks));
  return all;
}

// Merges as the host does, and compares the ranks.
void look_at_merge(TinyJob& tiny, const Tolerances& allowed, Findings& findings) {
  std::string problem;
  try {
    tiny.bindings().check_replicas(Bindings::Origin::kMerged);
  } catch (const Error& error) {
    problem = error.what();
  }
  findings.look("merged replicas are the same on all ranks", problem);
  tiny.model->take_seen();
  tiny.job.evaluate(tiny.batch(0));
  findings.look(
      kLayers, published_difference(tiny.bindings(), &Shard::value, tiny.model->take_seen(), allowed.values));
}

void check_update(TinyJob& tiny, const std::vector<Alone>& all, size_t step, const Tolerances& allowed,
                  Findings& findings) {
  const Alone& own = all[static_cast<size_t>(tiny.booster.data_rank())];
  const Alone::Step& right = own.steps[step];
  Bindings& bindings = tiny.bindings();
  const auto in_step = [&](const std::string& problem) {
    return problem.empty() ? "" : fmt::format("step {}, {}", step + 1, problem);
  };
  tiny.model->take_seen();
  const double loss = tiny.job.accumulate_gradients(tiny.batch(static_cast<int64_t>(step)));
  double whole = 0;
  for (const Alone& replica : all) whole += replica.steps[step].loss;
  findings.look(kLayers, in_step(seen_difference(*tiny.model, own.before(step), allowed.values)));
  findings.look("the loss is the mean over all samples, each by its replica",
                in_step(difference("the loss", loss, whole, allowed.values)));
  findings.look(
      "published gradients are those of the replica's own samples",
      in_step(published_difference(bindings, &Shard::gradient, right.gradients, allowed.gradients)));
  tiny.job.optimizer.step();
  findings.look("until they are merged, replicas are trained as one rank on their own samples",
                in_step(published_difference(bindings, &Shard::value, right.values, allowed.values)));
  check_zeroed(tiny, right.gradients, static_cast<int64_t>(step), findings);
}

void train(const World& world, const Run& run, const std::vector<Alone>& all, const std::string& save,
           Findings& findings) {
  const Tolerances allowed = tolerances(run.precision);
  TinyJob tiny = boost(world, run);
  Bindings& bindings = tiny.bindings();
  const Tensors& initial = all.front().initial;
  findings.look(kBegins, published_difference(bindings, &Shard::value, initial, allowed.values));
  check_written(tiny, initial, allowed, findings);
  const auto alone = static_cast<size_t>(std::min(bindings.merge_interval() - 1, kAlone));
  for (size_t step = 0; step < alone; ++step) {
    if (on_any_rank(world, findings.failed())) return;
    check_update(tiny, all, step, allowed, findings);
  }
  if (on_any_rank(world, findings.failed())) return;
  tiny.job.accumulate_gradients(tiny.batch(kAlone));
  tiny.job.optimizer.step();
  tiny.job.optimizer.zero_grad();
  bindings.merge();
  look_at_merge(tiny, allowed, findings);
  if (!save.empty() && !on_any_rank(world, findings.failed())) tiny.booster.save_training(tiny.job, save);
}

// Writes into the values of each replica in turn, and expects that a merge notices.
void merge_others(const World& world, const Run& run, const Tensors& initial, Findings& findings) {
  const Tolerances allowed = tolerances(run.precision);
  TinyJob tiny = boost(world, run);
  Bindings& bindings = tiny.bindings();
  bindings.merge_replicas();
  findings.look("merged before the first update, values stay as they are",
                published_difference(bindings, &Shard::value, initial, allowed.values));
  for (int rank = 0; rank < world.size(); ++rank) {
    if (on_any_rank(world, findings.failed())) return;
    const Tensors before = published(bindings, &Shard::value);
    const std::vector<Shard> shards = bindings.publish(WEFT_REASON_UPDATE);
    for (const Shard& shard : shards)
      if (rank == world.rank() && !shard.param->frozen) at::Tensor(shard.value).add_(1);
    bindings.values_written(WEFT_REASON_UPDATE, shards);
    bindings.merge_replicas();
    look_at_merge(tiny, allowed, findings);
    for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK))
      findings.look(
          "a merge takes every replica into account",
          shard.param->frozen || !published_difference(bindings, &Shard::value, before, 1e-3).empty()
              ? ""
              : fmt::format("what rank {} trained is lost", rank));
  }
}

// Loads what other ranks saved, and merges it with itself.
void load(const World& world, const Run& run, const std::string& folder, Findings& findings) {
  TinyJob tiny = boost(world, run);
  tiny.booster.load_training(tiny.job, folder);
  look_at_merge(tiny, tolerances(run.precision), findings);
  tiny.job.accumulate_gradients(tiny.batch(0));
  tiny.job.optimizer.step();
  tiny.bindings().merge();
  look_at_merge(tiny, tolerances(run.precision), findings);
}

}  // namespace

bool trains_alone(const Run& run) {
  BoosterOptions options;
  options.strategy = run.strategy;
  options.options = run.options;
  options.precision = run.precision;
  const weft_strategy_api* const api = choose_strategy(options).api;
  return WEFT_HAS_FIELD(api, weft_strategy_api, merge_interval) && api->merge_interval != nullptr;
}

void check_merging(const Run& run, const Tell& tell) {
  const Scratch scratch;
  const std::string saved = scratch.path("saved");
  const auto trains = [&](const Case& one, const Run& how, const std::string& save) {
    const std::vector<Alone> all = train_replicas(how.precision, one.ranks);
    return run_case(
        one, [&](const World& world, Findings& findings) { train(world, how, all, save, findings); }, tell);
  };
  if (trains({"2 ranks", 2}, run, saved) != Outcome::kPassed) return;
  const Tensors initial = train_replicas(run.precision, 1).front().initial;
  run_case(
      {"3 ranks, merges", 3},
      [&](const World& world, Findings& findings) { merge_others(world, run, initial, findings); }, tell);
  run_case(
      {"3 ranks, what 2 saved", 3},
      [&](const World& world, Findings& findings) { load(world, run, saved, findings); }, tell);
  Run accumulated = run;
  accumulated.accumulate = 2;
  trains({"3 ranks, 2 micro-batches", 3, true}, accumulated, "");
  Run half = run;
  half.precision = "bf16";
  trains({"2 ranks, bf16", 2, true}, half, "");
}

}  // namespace weft::contract
