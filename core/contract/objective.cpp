#include "contract/objective.hpp"

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "contract/loss_parts.hpp"
#include "contract/model.hpp"
#include "contract/one_rank.hpp"
#include "contract/ranks.hpp"
#include "failure.hpp"
#include "opening/objective_library.hpp"
#include "weft/booster.hpp"
#include "weft/data/dataset.hpp"
#include "weft/nn/batch_fields.hpp"

namespace weft::contract {

namespace {

constexpr int64_t kSamples = 4;
constexpr const char* kObjective = "objective";

// A model and a batch that the objective takes.
struct Trial {
  OpenModel open;
  Sample sample;
};

// Returns the batch with other numbers of labels in each sample, so that ranks and micro-batches differ.
Batch with_unlike_counts(Batch batch) {
  for (auto& [name, tensor] : batch) {
    if (!is_label(name, tensor) || tensor.dim() != 2) continue;
    tensor = tensor.clone();
    for (int64_t sample = 0; sample < tensor.size(0); ++sample)
      tensor[sample].narrow(0, 0, std::min(2 * sample, tensor.size(1) - 2)).fill_(nn::kIgnored);
  }
  return batch;
}

Job boost(Model model, const Sample& sample) {
  BoosterOptions options;
  options.strategy = "none";
  options.precision = kReferencePrecision;
  options.objective = sample.objective;
  options.objective_options = sample.objective_options;
  return Booster(options, launch(0, 1, "localhost", 1)).boost(std::move(model));
}

// Keeps the first refusal, but one of the objective itself before one of a model.
void keep_refusal(std::string& problem, const std::string& refusal) {
  const auto is_of_objective = [](const std::string& text) { return text.starts_with(kObjective); };
  if (problem.empty() || (is_of_objective(refusal) && !is_of_objective(problem))) problem = refusal;
}

// Returns the first sample that the objective counts labels of. `problem` is why it takes none.
std::optional<Sample> taken_sample(const OpenModel& open, std::vector<Sample> samples, const Sample& with,
                                   std::string& problem) {
  for (Sample& sample : samples) {
    if (sample.criterion) continue;
    Sample wanted = with;
    wanted.batch = with_unlike_counts(sample.batch);
    try {
      if (boost(open(), wanted).evaluate(wanted.batch).labels() > 0) return wanted;
      keep_refusal(problem, fmt::format("{} {}: it counts no label", kObjective, with.objective));
    } catch (const std::exception& exception) {
      keep_refusal(problem, describe(exception).text);
    }
  }
  return std::nullopt;
}

std::optional<Trial> trial_with(OpenModel open, const std::string& data, const Sample& with,
                                std::string& problem) {
  std::vector<Sample> samples;
  if (data.empty()) {
    samples = small_samples(open().module());
  } else {
    const auto dataset = data::tensors(data);
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < std::min(kSamples, dataset->size()); ++i) rows.push_back(i);
    samples.push_back({dataset->get(rows), {}});
  }
  std::optional<Sample> sample = taken_sample(open, std::move(samples), with, problem);
  if (!sample) return std::nullopt;
  return Trial{std::move(open), *std::move(sample)};
}

std::optional<Trial> find_trial(const std::string& data, const std::string& model, const Sample& with,
                                const Scratch& scratch, std::string& problem) {
  const auto opener = [](const SmallModel& small) -> OpenModel {
    return [small] { return small.open(kReferencePrecision); };
  };
  if (!data.empty())
    return trial_with([model] { return Model::open(model, "", kReferencePrecision); }, data, with, problem);
  if (!model.empty()) return trial_with(opener(small_model("", model, scratch)), "", with, problem);
  for (const std::string& architecture : installed_classes())
    if (auto found = trial_with(opener(small_model(architecture, "", scratch)), "", with, problem))
      return found;
  return std::nullopt;
}

// Compares ranks with one rank: with unlike numbers of samples, in micro-batches, and with layers that are
// split.
void check_on_unlike_ranks(const Trial& trial, const Tell& tell) {
  const Reference reference = make_reference(trial.open, trial.sample);
  const auto run = [&](const Case& one, const Split& split) {
    run_case(
        one,
        [&](const World& world, Findings& findings) {
          compare_with_one_rank(world, trial.open, split, reference, findings);
        },
        tell);
  };
  run({"2 ranks", 2}, {});
  run({"3 ranks, 2 micro-batches, recomputation", 3}, {.accumulate = 2, .recompute = "all"});
  run({"tp_size 2", 2, /*may_refuse=*/true}, {.options = {{"tp_size", 2}, {"parallel_output", false}}});
  run({"pp_size 2", 2, /*may_refuse=*/true}, {.options = {{"pp_size", 2}}});
}

}  // namespace

void check_objective(const std::string& name, const std::string& options, const std::string& data,
                     const std::string& model, const Tell& tell) {
  if (!data.empty() && model.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "--data is given without --model: give the config.json of a model that reads {}", data);
  const bool is_own = makes_labels(name);
  tell({"its name is none of Weft's own objectives", !is_own,
        is_own ? name + " makes labels, so users would never get this library" : ""});
  if (is_own) return;
  const Scratch scratch;
  Sample with;
  with.objective = name;
  with.objective_options = options;
  std::string problem;
  const std::optional<Trial> trial = find_trial(data, model, with, scratch, problem);
  if (!trial)
    return tell(
        {"takes a batch of some model", false,
         fmt::format("{}; give --model with a config.json, and --data with samples (.safetensors) if the "
                     "objective needs fields that models do not have",
                     problem.empty() ? "no installed class of models says an example of a batch" : problem)});
  Findings findings;
  try {
    const Model opened = trial->open();
    const ChosenLoss loss = open_objective(name, options, opened);
    const State outputs = boost(opened, trial->sample).forward(trial->sample.batch);
    check_loss_parts({loss, outputs, trial->sample.batch}, findings);
    if (!findings.failed()) check_gradients(trial->open, trial->sample, findings);
  } catch (const std::exception& exception) {
    findings.look("runs to its end", describe(exception).text);
  }
  for (const Check& check : findings.checks()) tell(check);
  if (!findings.failed()) check_on_unlike_ranks(*trial, tell);
}

}  // namespace weft::contract
