// The options that the host performs for a strategy: precision, loss scaling, clipping. A strategy leaves one
// to the host by listing it in its plugin.json (weft/strategy.h has the list). Options that it does not list
// have their defaults, or come from `mixed_precision` of the booster.
#pragma once

#include <string>

#include "base/options.hpp"
#include "training/host_options.hpp"
#include "weft/booster.hpp"

namespace weft {

// Returns the precision of a job: that of the booster, of the strategy's option `precision`, or `param_dtype`
// of its `mixed_precision`; "fp32" if none is given. Throws INVALID_ARGUMENT if two differ or a name is
// unknown.
std::string resolve_precision(const BoosterOptions& booster);

// Throws INVALID_ARGUMENT if a job of this precision has no matrix products of fp32 values, so that
// BoosterOptions::allow_tf32 would have no effect.
void check_tf32_has_effect(const BoosterOptions& booster, const std::string& precision);

// Throws UNIMPLEMENTED if BoosterOptions::enable_cuda_graph cannot be honoured, whatever the strategy.
void check_graphs_are_possible(const BoosterOptions& booster);

// Reads the host's options from the booster and from `options` of the strategy, which `table` lists. Throws
// INVALID_ARGUMENT or UNIMPLEMENTED naming the option, the value and what is possible.
HostOptions host_options(const BoosterOptions& booster, const OptionTable& table, const Options& options);

// Reads the schedule of a step from the file that the option schedule_file names, if it is given.
// host_options does not, because a file that one rank lacks must be an error on every rank: jobs call this
// inside of on_every_rank. `accumulate`: that of the job. Throws INVALID_ARGUMENT naming the file and what is
// wrong with its schedule, and the errors of read_file.
void read_schedule(PipelineOptions& options, int64_t accumulate);

}  // namespace weft
