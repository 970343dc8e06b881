// The data on which `weft train` evaluates.
#pragma once

#include <cstdint>
#include <vector>

#include "command/arguments.hpp"
#include "weft/trainer.hpp"

namespace weft::command {

// Returns the options of a loader that reads `batch_size` samples over all ranks in the order of the data,
// rounded up to a multiple of the data-parallel ranks.
data::LoaderOptions in_order(const Booster& booster, int64_t batch_size, int64_t workers);

// Throws on every rank unless all of them read the same data with the same objective. Collective.
void require_same_data(const data::Dataset& dataset, const World& world);

// Opens --evaluation-data, or what --held-out leaves out of --data, as `weft evaluate` reads it: without what
// changes images at random, for example. Nothing without --evaluate-every. Collective.
std::vector<EvaluationSet> evaluation_sets(const Settings& arguments, const Model& model,
                                           const Booster& booster);

// Sets when the training is evaluated, from --evaluate-every.
void set_evaluation_times(const Settings& arguments, TrainerOptions& options);

}  // namespace weft::command
