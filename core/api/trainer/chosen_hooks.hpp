// What the options of a training, as sdk/options/job.json declares them, ask a Trainer for.
#pragma once

#include <memory>
#include <string>

#include "base/settings.hpp"
#include "weft/hooks.hpp"

namespace weft {

// Sets how long the training is: "steps", or "epochs", of which there is one without both.
void set_length(const Settings& settings, TrainerOptions& options);
// Sets when the training is evaluated, from "evaluate_every".
void set_evaluation_times(const Settings& settings, TrainerOptions& options);

// Returns what saves to "output" in the checkpoint format `format`, or null. Collective.
std::shared_ptr<Checkpoints> make_checkpoints(const Settings& settings, const std::string& format,
                                              const World& world);
// Return what "on_nonfinite" and "patience" ask for, or null.
std::shared_ptr<NonFiniteGuard> make_guard(const Settings& settings);
std::shared_ptr<EarlyStopping> make_early_stopping(const Settings& settings);
// Returns what writes to "metrics" and "tensorboard", which may both be missing.
std::shared_ptr<StepRecords> make_records(const Settings& settings, const World& world);

}  // namespace weft
