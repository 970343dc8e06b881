// The batch size of `weft train --auto-batch-size`.
#pragma once

#include <optional>

#include "base/settings.hpp"
#include "weft/booster.hpp"
#include "weft/job.hpp"
#include "weft/strategy.h"

namespace weft::command {

// Returns what a rank holds between steps, by the formulas of the strategy; nothing if it has none. The model
// must not be boosted yet. With pipeline stages that of the stage that holds the most.
std::optional<weft_job_estimate> memory_between_steps(const Model& model, const BoosterOptions& options,
                                                      int64_t world_size);

// Returns the arguments with the largest --batch-size whose steps fit into the memory of every rank, in place
// of --auto-batch-size and --memory, and says on the master what it found. The memory of one sample and of
// two is measured, and the batch that follows from it is tried: each is a forward and a backward of the
// longest sample of the data, repeated, of which nothing stays. Averages the weights before, if "ema" is
// given, because the average takes memory too. `between` is that of memory_between_steps(). Throws
// RESOURCE_EXHAUSTED on every rank if one sample does not fit. Collective.
Settings with_fitting_batch(const Settings& arguments, const Booster& booster, Job& job,
                            const std::optional<weft_job_estimate>& between);

}  // namespace weft::command
