// The flags of `weft train` that configure the optimizer and its learning rate schedule.
#pragma once

#include <string>

#include "base/settings.hpp"
#include "weft/model.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/optim/scheduler.hpp"

namespace weft::command {

// Creates --optimizer with --lr, --weight-decay, --momentum, --betas, --eps and --optimizer-option key=value.
// The parameters of --no-decay and --lr-scale are groups of their own, behind the others.
optim::Optimizer make_optimizer(const Settings& arguments, const Model& model);

// Creates --lr-scheduler with --warmup-steps or --warmup-ratio and --lr-scheduler-option key=value for a run
// of `total` steps.
optim::Scheduler make_scheduler(const Settings& arguments, optim::Optimizer& optimizer, int64_t total);

// Throws INVALID_ARGUMENT for a flag that differs from the options saved in `folder`: after --resume the
// saved options apply, so the flag would have no effect.
void check_resumed_flags(const Settings& arguments, optim::Optimizer& optimizer,
                         const optim::Scheduler& schedule, const std::string& folder);

}  // namespace weft::command
