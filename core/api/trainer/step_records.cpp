// StepRecords: what each step and each evaluation measures.
#include <ATen/ops/tensor.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "device/device.hpp"
#include "device/tensors.hpp"
#include "host/launch/activity.hpp"
#include "plugins.hpp"
#include "trace/phases.hpp"
#include "weft/hooks.hpp"

namespace weft {

namespace {

constexpr std::pair<trace::Phase, const char*> kTimes[] = {
    {trace::Phase::kData, "data_seconds"},
    {trace::Phase::kForward, "forward_seconds"},
    {trace::Phase::kBackward, "backward_seconds"},
    {trace::Phase::kOptimizer, "optimizer_seconds"},
    {trace::Phase::kCommunication, "communication_wait_seconds"},
    {trace::Phase::kDevice, "device_wait_seconds"},
    {trace::Phase::kSaving, "saving_seconds"},
};

}  // namespace

struct StepRecords::Measures {
  StepLog log;
  StepValues values = {};  // of the step that is being recorded; empty: none
  bool names_plugins = true;
  std::map<std::string, int64_t> bytes_before = {};
  trace::PhaseTimes times_before = {};
};

StepRecords::StepRecords(StepLog log) : measures_(new Measures{std::move(log)}) {}

StepRecords::~StepRecords() = default;

std::vector<std::string> StepRecords::incomplete() const {
  return measures_->log.incomplete();
}

void StepRecords::begin(Trainer& trainer) {
  measures_->log.begin(trainer.step() > 0 ? std::optional(trainer.step()) : std::nullopt);
  measures_->bytes_before = communicated_bytes();
  measures_->times_before = trace::PhaseClock::of_thread().times();
}

void StepRecords::after_step(Trainer& trainer) {
  if (!measures_->log.wanted()) return;
  const trace::PhaseTimes times = trace::PhaseClock::of_thread().times();
  const at::Tensor peak = at::tensor({device::memory_use().peak}, at::kLong);
  {
    const ActivityDetail detail("waiting for all ranks to count its metrics");
    trainer.booster().world().communicator().all_reduce(peak, ReduceOp::kMax, true).wait();
  }
  const StepResult& result = trainer.result();
  StepValues values = {{"loss", result.loss},
                       {"epoch", trainer.epoch()},
                       {"lr", result.lr},
                       {"step_seconds", result.seconds},
                       {"tokens_per_second", result.tokens_per_second},
                       {"peak_memory_bytes", device::value_of<int64_t>(peak)}};
  for (const auto& [name, count] : communicated_bytes())
    values["communicated_bytes/" + name] = count - std::exchange(measures_->bytes_before[name], count);
  for (const auto& [phase, name] : kTimes) {
    const auto place = static_cast<size_t>(phase);
    if (const trace::Time spent = times[place] - measures_->times_before[place]; spent > 0)
      values[name] = trace::seconds(spent);
  }
  if (result.auxiliary_loss) values["auxiliary_loss"] = *result.auxiliary_loss;
  if (result.grad_norm && std::isfinite(*result.grad_norm)) values["grad_norm"] = *result.grad_norm;
  if (result.loss_scale) values["loss_scale"] = *result.loss_scale;
  if (!result.updated) values["skipped"] = true;
  if (std::exchange(measures_->names_plugins, false))
    for (const UsedPlugin& plugin : used_plugins()) values["plugins/" + plugin.id] = plugin.version;
  measures_->values = std::move(values);
  measures_->times_before = trace::PhaseClock::of_thread().times();
}

void StepRecords::after_evaluation(Trainer& trainer) {
  if (!measures_->log.wanted()) return;
  for (const auto& [key, value] : *trainer.evaluation())
    measures_->values["evaluation/" + key] = value.value_or(std::numeric_limits<double>::quiet_NaN());
  // What an evaluation sends belongs to no step.
  measures_->bytes_before = communicated_bytes();
  measures_->times_before = trace::PhaseClock::of_thread().times();
}

void StepRecords::end_step(Trainer& trainer) {
  if (!measures_->values.empty())
    measures_->log.write(trainer.step(), std::exchange(measures_->values, StepValues()));
}

}  // namespace weft
