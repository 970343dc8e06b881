// Trainer: one step after the other, and what happens between them.
#include "weft/trainer.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "evaluation/set_evaluation.hpp"
#include "host/launch/activity.hpp"
#include "trace/phases.hpp"
#include "trace/trace.hpp"

namespace weft {

namespace {

// More steps in a row without an update than a loss scale needs to find its value.
constexpr int64_t kMostSkipped = 200;

void check_options(const TrainerOptions& options) {
  if (options.evaluate_every < 0)
    fail(WEFT_INVALID_ARGUMENT, "Trainer: evaluate_every is {}, must not be negative",
         options.evaluate_every);
  if (options.evaluate_every > 0 && options.evaluate_every_epoch)
    fail(WEFT_INVALID_ARGUMENT, "Trainer: evaluate_every and evaluate_every_epoch are given; give one");
  if (options.evaluation.empty() != (options.evaluate_every == 0 && !options.evaluate_every_epoch))
    fail(WEFT_INVALID_ARGUMENT, "Trainer: {}; give both or neither",
         options.evaluation.empty() ? "a time to evaluate is given, but no data to evaluate on"
                                    : "data to evaluate on is given, but no time to evaluate");
  std::set<std::string> names;
  for (const EvaluationSet& set : options.evaluation) {
    if (!set.data) fail(WEFT_INVALID_ARGUMENT, "Trainer: the evaluation set \"{}\" has no loader", set.name);
    if (!names.insert(set.name).second || (options.evaluation.size() > 1 && set.name.empty()))
      fail(WEFT_INVALID_ARGUMENT, "Trainer: of {} evaluation sets {} \"{}\"; give each a name of its own",
           options.evaluation.size(), set.name.empty() ? "one is called" : "two are called", set.name);
  }
  names.clear();
  for (const std::shared_ptr<Hook>& hook : options.hooks) {
    if (hook == nullptr) fail(WEFT_INVALID_ARGUMENT, "Trainer: a hook is null");
    if (!names.insert(hook->name()).second)
      fail(WEFT_INVALID_ARGUMENT, "Trainer: two hooks are called \"{}\"", hook->name());
  }
}

// Returns the values of the master, so that hooks decide alike. Bits, because JSON has no nan. Collective.
EvaluationValues same_on_every_rank(const EvaluationValues& values, const World& world) {
  if (world.size() == 1) return values;
  nlohmann::json bits;
  for (const auto& [key, value] : values)
    bits[key] = value ? nlohmann::json(std::bit_cast<uint64_t>(*value)) : nlohmann::json();
  bits = nlohmann::json::parse(world.communicator().broadcast_text(bits.dump(), 0));
  EvaluationValues same;
  for (const auto& [key, value] : bits.items())
    same[key] = value.is_null() ? std::nullopt : std::optional(std::bit_cast<double>(value.get<uint64_t>()));
  return same;
}

// Returns the number of the epoch that the next batch belongs to.
int64_t next_epoch(const data::Loader& data) {
  const data::Loader::Position position = data.position();
  return position.epoch + (position.batch == data.batches_per_epoch() ? 1 : 0);
}

}  // namespace

int64_t total_steps(const TrainerOptions& options, const data::Loader& data) {
  if ((options.steps > 0) == (options.epochs > 0) || options.steps < 0 || options.epochs < 0)
    fail(WEFT_INVALID_ARGUMENT, "steps is {} and epochs is {}, exactly one must be more than 0",
         options.steps, options.epochs);
  if (options.steps > 0) return options.steps;
  const int64_t most = INT64_MAX / data.batches_per_epoch();
  if (options.epochs > most)
    fail(WEFT_INVALID_ARGUMENT, "epochs (--epochs) is {}, must be at most {} with {} steps per epoch",
         options.epochs, most, data.batches_per_epoch());
  return options.epochs * data.batches_per_epoch();
}

Trainer::Trainer(Booster booster, Job job, TrainerOptions options)
    : booster_(std::move(booster)), job_(std::move(job)), options_(std::move(options)) {
  check_options(options_);
  if (!job_.optimizer || !job_.data)
    fail(WEFT_FAILED_PRECONDITION, "Trainer: the job has no {}; pass one to Booster::boost",
         job_.optimizer ? "data" : "optimizer");
  step_ = job_.optimizer.steps();
  total_steps_ = weft::total_steps(options_, job_.data);
  epoch_ = next_epoch(job_.data);
}

void Trainer::fit() {
  stopping_ = false;
  step_ = job_.optimizer.steps();
  restore_hooks();
  for (const EvaluationSet& set : options_.evaluation)
    for (const std::shared_ptr<SetMeasures>& measures : set.measures) measures->check(job_);
  call(&Hook::begin);
  combine_requests();
  for (bool begins = true; !stopping_ && job_.optimizer.steps() < total_steps_; begins = ends_epoch_) {
    step_ = job_.optimizer.steps() + 1;
    epoch_ = next_epoch(job_.data);
    if (begins) call(&Hook::before_epoch);
    wants_evaluation_ = wants_save_ = false;
    load_batch();
    const bool ran = run_step();
    if (ends_epoch_) call(&Hook::after_epoch);
    combine_requests();
    const bool due = wants_evaluation_ || (is_evaluated() && (result_.updated || ends_epoch_));
    if (ran && due && !result_.stop) {
      evaluate();
      combine_requests();
    }
    call(&Hook::end_step);
  }
  call(&Hook::end);
}

void Trainer::restore_hooks() {
  const auto restore = [&](Hook& hook) {
    const auto saved = job_.hook_states.find(hook.name());
    if (saved == job_.hook_states.end()) return;
    try {
      hook.restore(saved->second);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& e) {
      fail(WEFT_DATA_LOSS, "the saved state of the hook \"{}\" cannot be read: {}", hook.name(), e.what());
    }
  };
  on_every_rank(booster_.world().communicator(), [&] {
    for (const std::shared_ptr<Hook>& hook : options_.hooks) restore(*hook);
  });
}

void Trainer::load_batch() {
  const trace::InPhase loading(trace::Phase::kData);
  const trace::Span span([] { return trace::begin("load a batch", "data"); });
  if (!job_.data.next(batch_) && !job_.data.next(batch_)) fail(WEFT_INTERNAL, "the data has no batch");
  ends_epoch_ = job_.data.position().batch == job_.data.batches_per_epoch();
}

// Returns false if a hook left the step out.
bool Trainer::run_step() {
  skips_ = false;
  call(&Hook::before_step);
  if (skips_) return false;
  StepMoments moments;
  if (!options_.hooks.empty())
    moments = {[&](uint32_t micro) { call(&Hook::before_micro_batch, micro); },
               [&](uint32_t micro) { call(&Hook::after_micro_batch, micro); },
               [&] {
                 call(&Hook::before_update);
                 return !skips_;
               },
               [&] { call(&Hook::after_update); }};
  result_ = job_.train_step(batch_, moments);
  check_result();
  stopping_ |= result_.stop;
  call(&Hook::after_step);
  return true;
}

// Throws ABORTED if training has diverged.
void Trainer::check_result() {
  skipped_ = result_.updated || skips_ ? 0 : skipped_ + 1;
  if (skipped_ > kMostSkipped && result_.loss == 0)
    fail(WEFT_ABORTED,
         "no label counts in {} batches in a row, so that nothing can be learned from them: check the labels "
         "of the data, or give longer samples (--sequence-length)",
         skipped_);
  if (skipped_ > kMostSkipped && !result_.finite)
    fail(WEFT_ABORTED,
         "{} steps in a row were not finite: take a lower learning rate (--lr), or check the data", skipped_);
  if (!result_.finite) return;
  if (skipped_ > kMostSkipped)
    fail(WEFT_ABORTED,
         "{} steps in a row overflowed, down to a loss scale of {}: take a lower learning rate (--lr), check "
         "the data, or use bf16",
         skipped_, *result_.loss_scale);
  if (!result_.updated && std::isfinite(result_.loss)) return;
  const bool loss = std::isfinite(result_.loss);
  if (loss && std::isfinite(result_.grad_norm.value_or(0))) return;
  fail(WEFT_ABORTED,
       "the {} of step {} is {}: take a lower learning rate (--lr), clip the gradients (--max-grad-norm), or "
       "check the data",
       loss ? "gradient's norm" : "loss", step_, loss ? *result_.grad_norm : result_.loss);
}

bool Trainer::is_evaluated() const {
  if (options_.evaluation.empty()) return false;
  const bool by_steps = options_.evaluate_every > 0 && step_ % options_.evaluate_every == 0;
  return by_steps || (options_.evaluate_every_epoch && ends_epoch_) || step_ >= total_steps_;
}

// Whether a rank asked to stop. Collective.
bool Trainer::stop_is_requested() const {
  const World& world = booster_.world();
  if (world.size() == 1) return job_.stop_requested->load();
  const at::Tensor requests = at::tensor({job_.stop_requested->load() ? int64_t{1} : int64_t{0}}, at::kLong);
  world.communicator().all_reduce(requests, ReduceOp::kSum, true).wait();
  return device::value_of<int64_t>(requests) > 0;
}

bool Trainer::saves() const {
  return std::any_of(options_.hooks.begin(), options_.hooks.end(),
                     [](const std::shared_ptr<Hook>& hook) { return hook->saves(); });
}

// Makes what a hook asks for on one rank a request of all ranks, and its failure one of all. Collective.
void Trainer::combine_requests() {
  const auto asks_alone = [](const std::shared_ptr<Hook>& hook) { return hook->asks_alone(); };
  if (std::none_of(options_.hooks.begin(), options_.hooks.end(), asks_alone)) return;
  const World& world = booster_.world();
  if (world.size() > 1) {
    std::exception_ptr failure;  // of the first hook that has one
    for (const std::shared_ptr<Hook>& hook : options_.hooks)
      if (!failure) failure = hook->failure();
    const at::Tensor requests = at::tensor(
        {int64_t{stopping_}, int64_t{wants_evaluation_}, int64_t{wants_save_}, int64_t{failure != nullptr}},
        at::kLong);
    world.communicator().all_reduce(requests, ReduceOp::kMax, true).wait();
    const std::vector<int64_t> combined = device::values_of<int64_t>(requests);
    if (combined[3] > 0)
      on_every_rank(world.communicator(), [&] {
        if (failure) std::rethrow_exception(failure);
      });
    stopping_ = combined[0] > 0;
    wants_evaluation_ = combined[1] > 0;
    wants_save_ = combined[2] > 0;
  }
  if (wants_save_ && !saves())
    fail(WEFT_FAILED_PRECONDITION,
         "a hook asks for a save after step {}, but the training saves nowhere: give it an output folder",
         step_);
}

// Returns the values of a set, or of its first batch; nothing if a request to stop came before the end.
std::optional<EvaluationValues> Trainer::values_of_set(EvaluationSet& set, bool whole) {
  std::optional<SetResult> result =
      evaluate_set(job_, set, whole ? 0 : 1, [&] { return stop_is_requested(); });
  return result ? std::optional(std::move(result->values)) : std::nullopt;
}

std::optional<EvaluationValues> Trainer::values_of_sets(bool whole) {
  EvaluationValues values;
  for (EvaluationSet& set : options_.evaluation) {
    const std::optional<EvaluationValues> of_set = values_of_set(set, whole);
    if (!of_set) return std::nullopt;
    if (options_.evaluation.size() > 1)
      for (const auto& [key, value] : *of_set) values[set.name + "/" + key] = value;
    if (&set == &options_.evaluation.front()) values.insert(of_set->begin(), of_set->end());
  }
  return values;
}

// Those of the averaged weights have keys that begin with "ema/".
std::optional<EvaluationValues> Trainer::values_of_weights_and_average(bool whole) {
  if (options_.evaluation.empty()) fail(WEFT_FAILED_PRECONDITION, "Trainer: there is no data to evaluate on");
  std::optional<EvaluationValues> values = values_of_sets(whole);
  if (values && job_.average) {
    job_.swap_average();
    const std::optional<EvaluationValues> averaged = values_of_sets(whole);
    job_.swap_average();
    if (!averaged) return std::nullopt;
    for (const auto& [key, value] : *averaged) (*values)["ema/" + key] = value;
  }
  if (values) *values = same_on_every_rank(*values, booster_.world());
  return values;
}

std::vector<std::string> Trainer::evaluation_keys() {
  if (!first_values_) first_values_ = values_of_weights_and_average(/*whole=*/false);
  std::vector<std::string> keys;
  for (const auto& [name, value] : *first_values_) keys.push_back(name);
  return keys;
}

void Trainer::require_key(const std::string& key) {
  const std::vector<std::string> keys = evaluation_keys();
  if (std::find(keys.begin(), keys.end(), key) != keys.end()) return;
  fail(WEFT_INVALID_ARGUMENT, "an evaluation of this model has no value \"{}\", it has {}{}", key,
       fmt::join(keys, ", "), did_you_mean(key, keys));
}

bool Trainer::evaluate() {
  const Activity activity(fmt::format("the evaluation after step {}", step_));
  const trace::Span span([] { return trace::begin("evaluate", "evaluation"); });
  call(&Hook::before_evaluation);
  std::optional<EvaluationValues> values = values_of_weights_and_average(/*whole=*/true);
  if (!values) {
    booster_.world().print_on_master(
        fmt::format("the evaluation after step {} is left out, because the job was asked to stop", step_));
    return false;
  }
  evaluation_ = std::move(values);
  evaluated_step_ = step_;
  call(&Hook::after_evaluation);
  return true;
}

void Trainer::save(const std::string& folder, const SaveOptions& options) {
  const trace::InPhase saving(trace::Phase::kSaving);
  const trace::Span span([] { return trace::begin("save", "checkpoint"); });
  call(&Hook::before_save, folder);
  job_.hook_states.clear();
  for (const std::shared_ptr<Hook>& hook : options_.hooks)
    if (std::string state = hook->state(); !state.empty())
      job_.hook_states.emplace(hook->name(), std::move(state));
  booster_.save_training(job_, folder, options);
  call(&Hook::after_save, folder);
}

}  // namespace weft
