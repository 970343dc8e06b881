// Training: forwards without gradients, of evaluations.
#include <c10/util/ScopeExit.h>

#include <cmath>
#include <limits>

#include "device/random.hpp"
#include "device/tensors.hpp"
#include "training/auxiliary.hpp"
#include "training/step.hpp"
#include "training/training.hpp"

namespace weft {

// Gives each micro-batch of `step` its result.
void Training::evaluate(weft_step& step, const std::vector<Batch>& micro_batches) {
  step.owner = this;
  step.training = false;
  add_micro_batches(step, micro_batches);
  at::NoGradGuard no_grad;
  drive(step);
  // Every stage has the auxiliary losses of its own units.
  for (uint32_t i = 0; i < step.micro.size(); ++i) {
    MicroBatch& micro = step.micro[i];
    if (!step.counts(i).empty())
      append_terms(bindings_, *micro.context, micro.batch.empty, micro.auxiliary, micro.result);
  }
}

Training::Forward Training::run_forward(const std::vector<Batch>& micro_batches) {
  return bindings_.strategy().guarded([&] {
    weft_step step;
    evaluate(step, micro_batches);
    return joined_results(step.micro);
  });
}

std::pair<std::string, std::string> Training::find_nonfinite(const std::vector<Batch>& micro_batches) {
  std::pair<std::string, std::string> found;
  const device::KeepRandomState random;
  if (keeps_random_state()) device::set_random_state(random_before_step_);
  std::vector<at::Tensor> before;  // a forward in training mode changes statistics of batches
  for (const auto& [name, buffer] : bindings_.buffers()) before.push_back(buffer.clone());
  const auto restore = c10::make_scope_exit([&] {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < before.size(); ++i) bindings_.buffers()[i].second.copy_(before[i]);
    watch_ = {};
  });
  watch_ = [&](const weft_unit& unit, const State& state) {
    for (const auto& [name, tensor] : state) {
      if (!found.first.empty() || !tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0)
        continue;
      // Masks have -inf where nothing is attended to; nan is larger than all numbers.
      const auto largest = device::value_of<double>(tensor.max().to(at::kDouble));
      if (std::isnan(largest) || largest == std::numeric_limits<double>::infinity())
        found = {unit.unit->name(), name};
    }
  };
  run_forward(micro_batches);
  return found;
}

std::vector<Training::Forward> Training::run_each_forward(const std::vector<Batch>& micro_batches) {
  return bindings_.strategy().guarded([&] {
    weft_step step;
    evaluate(step, micro_batches);
    std::vector<Forward> results;
    for (MicroBatch& micro : step.micro) results.push_back(std::move(micro.result));
    return results;
  });
}

}  // namespace weft
