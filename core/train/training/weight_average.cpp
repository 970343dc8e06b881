#include "training/weight_average.hpp"

#include <ATen/core/grad_mode.h>

#include "base/text.hpp"

namespace weft {

WeightAverage::WeightAverage(Bindings& bindings, double decay) : bindings_(bindings), decay_(decay) {
  if (!(decay > 0 && decay < 1))
    fail(WEFT_INVALID_ARGUMENT, "the decay of averaged weights is {}, must be more than 0 and less than 1",
         decay);
  if (bindings.local_axes() != 0)
    fail(WEFT_FAILED_PRECONDITION,
         "{} lets replicas differ between two merges, so that their averaged weights would differ, too; "
         "choose another strategy, or leave the average out",
         bindings.strategy_name());
  reset();
}

void WeightAverage::reset() {
  averages_.clear();
  for (const Shard& shard : bindings_.publish(WEFT_REASON_CHECK)) {
    const at::ScalarType own = shard.value.scalar_type();
    averages_.push_back(shard.param->frozen
                            ? at::Tensor()
                            : shard.value.detach().to(own == at::kDouble ? own : at::kFloat, false, true));
  }
}

std::vector<WeightAverage::Range> WeightAverage::ranges() {
  std::vector<Range> ranges;
  std::vector<Shard> shards = bindings_.publish(WEFT_REASON_CHECK);
  for (size_t i = 0; i < shards.size(); ++i)
    if (averages_[i].defined()) ranges.push_back({std::move(shards[i]), averages_[i]});
  return ranges;
}

void WeightAverage::update() {
  const at::NoGradGuard no_grad;
  for (const Range& range : ranges())
    range.average.lerp_(range.shard.value.to(range.average.scalar_type()), 1 - decay_);
}

void WeightAverage::swap() {
  const at::NoGradGuard no_grad;
  const std::vector<Shard> shards = bindings_.publish(WEFT_REASON_UPDATE);
  for (size_t i = 0; i < shards.size(); ++i) {
    if (!averages_[i].defined()) continue;
    const at::Tensor trained = shards[i].value.clone();
    shards[i].value.copy_(averages_[i]);
    averages_[i].copy_(trained);
  }
  bindings_.values_written(WEFT_REASON_UPDATE, shards);
}

}  // namespace weft
