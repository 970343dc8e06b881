// The evaluation of a job on one set, as a Trainer and `weft evaluate` do it.
#pragma once

#include <functional>
#include <optional>

#include "weft/trainer.hpp"

namespace weft {

struct SetResult {
  Evaluation total;
  EvaluationValues values;  // of the total and of the set's measures
};

// Evaluates the job on the first `most_batches` of a set, or on all if that is 0. `is_stopped` is asked after
// each of them but the last, on every rank alike; returns nothing if it says so. Throws INVALID_ARGUMENT for
// batches without labels. Collective.
std::optional<SetResult> evaluate_set(Job& job, EvaluationSet& set, int64_t most_batches,
                                      const std::function<bool()>& is_stopped);

}  // namespace weft
