#include "command/step_metrics.hpp"

#include <ATen/ops/tensor.h>

#include <cmath>
#include <memory>
#include <utility>

#include "device/device.hpp"
#include "device/tensors.hpp"
#include "host/launch/activity.hpp"
#include "plugins.hpp"
#include "step_log/files.hpp"

namespace weft::command {

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

StepMetrics::StepMetrics(const std::string& jsonl, const std::string& tensorboard, const World& world)
    : log_(std::make_shared<StepLog::Files>(
          StepLogOptions{jsonl, tensorboard}, world,
          [](const std::string& name) { return name == "jsonl" ? "--metrics" : "--" + name; })),
      world_(world) {}

void StepMetrics::begin(std::optional<int64_t> resumed_after) {
  log_.begin(resumed_after);
  names_plugins_ = true;
  bytes_before_ = communicated_bytes();
  times_before_ = trace::PhaseClock::of_thread().times();
}

void StepMetrics::write(const StepResult& result, int64_t step) {
  if (!log_.wanted()) return;
  const trace::PhaseTimes times = trace::PhaseClock::of_thread().times();
  const at::Tensor peak = at::tensor({device::memory_use().peak}, at::kLong);
  {
    const ActivityDetail detail("waiting for all ranks to count its metrics");
    world_.communicator().all_reduce(peak, ReduceOp::kMax, true).wait();
  }
  StepValues values = {{"loss", result.loss},
                       {"lr", result.lr},
                       {"step_seconds", result.seconds},
                       {"tokens_per_second", result.tokens_per_second},
                       {"peak_memory_bytes", device::value_of<int64_t>(peak)}};
  for (const auto& [name, count] : communicated_bytes())
    values["communicated_bytes/" + name] = count - std::exchange(bytes_before_[name], count);
  for (const auto& [phase, name] : kTimes) {
    const auto place = static_cast<size_t>(phase);
    if (const trace::Time spent = times[place] - times_before_[place]; spent > 0)
      values[name] = trace::seconds(spent);
  }
  if (result.auxiliary_loss) values["auxiliary_loss"] = *result.auxiliary_loss;
  if (result.grad_norm && std::isfinite(*result.grad_norm)) values["grad_norm"] = *result.grad_norm;
  if (result.loss_scale) values["loss_scale"] = *result.loss_scale;
  if (!result.updated) values["skipped"] = true;
  if (std::exchange(names_plugins_, false))
    for (const UsedPlugin& plugin : used_plugins()) values["plugins/" + plugin.id] = plugin.version;
  log_.write(step, values);
  times_before_ = trace::PhaseClock::of_thread().times();
}

}  // namespace weft::command
