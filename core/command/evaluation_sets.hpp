// The data on which `weft train` evaluates.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "command/arguments.hpp"
#include "weft/trainer.hpp"

namespace weft::command {

// Returns the options of a loader that reads `batch_size` samples over all ranks in the order of the data,
// rounded up to a multiple of the data-parallel ranks.
data::LoaderOptions in_order(const Booster& booster, int64_t batch_size, int64_t workers);

// Returns what is measured of a set that `arguments` opened for the model, beside losses and metrics: of
// questions their answers, and with --word-error-rate generated texts. Throws INVALID_ARGUMENT for the latter
// without a tokenizer.
std::vector<std::shared_ptr<SetMeasures>> measures_of(const Settings& arguments, const Model& model,
                                                      const data::Loader& set);

// Throws on every rank unless all of them read the same data with the same objective. Collective.
void require_same_data(const data::Dataset& dataset, const World& world);

// Opens --evaluation-data, or what --held-out leaves out of --data, as `weft evaluate` reads it: without what
// changes images at random, for example. Nothing without --evaluate-every. Collective.
std::vector<EvaluationSet> evaluation_sets(const Settings& arguments, const Model& model,
                                           const Booster& booster);

// Throws INVALID_ARGUMENT on every rank if one of several sets is called as a value of the evaluation. Then a
// batch of each set is evaluated. Collective.
void check_set_names(const Settings& arguments, Trainer& trainer);

}  // namespace weft::command
