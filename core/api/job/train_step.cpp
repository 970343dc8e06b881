// Job::train_step, the same for every strategy.
#include <ATen/ops/tensor.h>

#include <chrono>
#include <cmath>
#include <optional>

#include "base/text.hpp"
#include "booster/option_checks.hpp"
#include "booster/running.hpp"
#include "device/tensors.hpp"
#include "host/launch/activity.hpp"
#include "opening/model_state.hpp"
#include "optim/optimizer_state.hpp"
#include "trace/phases.hpp"
#include "trace/trace.hpp"
#include "training/input_output.hpp"
#include "training/training.hpp"
#include "training/weight_average.hpp"
#include "weft/booster.hpp"

namespace weft {

namespace {

// Returns the number of positions in the model's first sequence, or of samples for a model without sequences.
// Returns 0 where another rank counts them.
double num_tokens(const Bindings& bindings, const Batch& batch) {
  if (batch.empty || !bindings.mesh().speaks_for(Fact::kSamples)) return 0;
  const std::vector<nn::SequenceLength> lengths = bindings.model().lengths(fields_of_model(bindings, batch));
  return static_cast<double>(lengths.empty() ? batch.samples() : lengths[0].rows * lengths[0].positions);
}

// Notes the loss scale and the learning rate of the step that runs.
void note_settings(Job& job, const Bindings& bindings, StepResult& result) {
  if (job.optimizer.shared().scaler) result.loss_scale = bindings.loss_scale();
  if (!job.optimizer.groups().empty()) result.lr = job.optimizer.groups().front().options.at("lr");
}

// Returns the result of a step whose global batch has no label that counts: nothing is computed or updated.
// Says so the first time.
StepResult step_without_labels(Job& job, Training& training, const Error& error) {
  training.postpone_check();
  if (training.is_first_without_labels())
    training.bindings().world().print_on_master(
        fmt::format("{}; such a batch updates nothing. This is said once", error.what()));
  StepResult result;
  result.index = job.optimizer.steps();
  result.updated = false;
  note_settings(job, training.bindings(), result);
  return result;
}

// What the ranks tell each other of a step: sums over all of them.
struct Totals {
  double loss = 0, tokens = 0, stops = 0, auxiliary_loss = 0, auxiliary_terms = 0;

  std::vector<double> list() const { return {loss, tokens, stops, auxiliary_loss, auxiliary_terms}; }
  static Totals of(const std::vector<double>& sums) { return {sums[0], sums[1], sums[2], sums[3], sums[4]}; }
};

// Notes a parameter whose gradient is not finite.
void note_nonfinite(Bindings& bindings, StepResult& result) {
  for (const Shard& shard : bindings.publish(WEFT_REASON_UPDATE))
    if (shard.gradient.defined() && shard.gradient.numel() > 0 &&
        !std::isfinite(device::value_of<double>(shard.gradient.sum(at::kDouble))))
      result.nonfinite_gradient = shard.param->name;  // the last one is closest to the loss
}

// Forgets the gradients of a step. Returns the sums, which the update would have brought. Collective.
std::vector<double> forget_gradients(Bindings& bindings, device::Reading& reading,
                                     const std::function<std::vector<double>()>& numbers) {
  bindings.take_touched();
  reading.read();
  const at::Tensor sums = at::tensor(numbers(), at::kDouble);
  if (bindings.world().size() > 1)
    bindings.world().communicator().all_reduce(sums, ReduceOp::kSum, true).wait();
  return device::values_of<double>(sums);
}

}  // namespace

StepResult Job::train_step(const Batch& batch, const StepMoments& moments) {
  const auto start = std::chrono::steady_clock::now();
  const std::string name = fmt::format("step {}", optimizer ? optimizer.steps() + 1 : 1);
  const Activity activity(name);
  const trace::Span span([&] { return trace::begin(name, "step"); });
  Training& training = training_of(model);
  Bindings& bindings = training.bindings();
  if (!optimizer) fail(WEFT_FAILED_PRECONDITION, "train_step needs an optimizer: pass one to Booster::boost");
  if (!bindings.model().is_training()) model.train();
  check_max_grad_norm(max_grad_norm, "train_step: max_grad_norm");
  batch.samples();
  training.begin_check();
  StepResult result;
  result.checked = training.is_checking();
  std::optional<Training::StepLoss> ran;
  if (guards_updates) training.keep_random_state();
  try {
    ran.emplace(training.run_step(micro_batches_of(batch, accumulate, bindings), criterion, nullptr,
                                  {moments.before_micro_batch, moments.after_micro_batch}));
  } catch (const Training::NoLabelError& error) {
    return step_without_labels(*this, training, error);
  }
  Training::StepLoss& loss = *ran;
  training.finish_check();
  const trace::InPhase optimizing(trace::Phase::kOptimizer);
  note_settings(*this, bindings, result);
  const auto numbers = [&] {
    return Totals{loss.total(), num_tokens(bindings, batch), stop_requested->load() ? 1.0 : 0.0,
                  loss.auxiliary(), static_cast<double>(loss.names.size() - loss.model_terms)}
        .list();
  };
  const bool updates = !moments.before_update || moments.before_update();
  const optim::Optimizer::Shared::Update update = [&]() -> optim::Optimizer::Shared::Update {
    if (!updates) return {false, 0, forget_gradients(bindings, loss.reading, numbers)};
    const trace::Span updating([] { return trace::begin("update", "optimizer"); });
    std::optional<ActivityDetail> detail;
    if (bindings.mesh().splits(Mesh::stages()))
      detail.emplace("after the schedule, waiting for all ranks to end theirs");
    return optimizer.shared().update(max_grad_norm, loss.reading, numbers, guards_updates);
  }();
  if (guards_updates && updates && !update.updated) note_nonfinite(bindings, result);
  bindings.zero_gradients();
  const Totals totals = Totals::of(update.extra);
  result.index = optimizer.steps();
  result.updated = update.updated;
  result.loss = totals.loss;
  // An overflow in fp16 is usual, until the loss scale has its value.
  result.finite = !guards_updates || !updates || update.updated ||
                  (optimizer.shared().scaler && std::isfinite(totals.loss));
  if (schedule && update.updated)
    schedule.schedule().follows_metric() ? schedule.step(result.loss) : schedule.step();
  result.stop = totals.stops > 0;
  if (totals.auxiliary_terms > 0) result.auxiliary_loss = totals.auxiliary_loss;
  if (max_grad_norm > 0 && updates) result.grad_norm = update.norm;
  if (update.updated && average) average->update();
  if (update.updated && moments.after_update) moments.after_update();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.tokens_per_second = totals.tokens / result.seconds;
  return result;
}

}  // namespace weft
