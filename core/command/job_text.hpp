// The file of --dump-config, and of training_state/job.yaml: what a job was told.
#pragma once

#include <string>

#include "base/settings.hpp"
#include "weft/booster.hpp"

namespace weft::command {

enum class JobText {
  kWhole,      // all that was given
  kRepeatable  // without what a repeated job decides anew: outputs, --resume, steps and ranks
};

// Returns the options that were given, and what was chosen where they were not (the strategy, the device), as
// YAML that --config reads; comments have the other defaults. `options` are those that the job was boosted
// with, `strategy` is the name of its strategy.
std::string job_yaml(const Settings& arguments, const BoosterOptions& options, const std::string& strategy,
                     JobText which);
// Does the same as JSON, without comments.
std::string job_json(const Settings& arguments, const BoosterOptions& options, const std::string& strategy);

}  // namespace weft::command
