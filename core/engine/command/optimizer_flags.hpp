// The flags of `weft train` that make the optimizer and its schedule.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "weft/model.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/optim/scheduler.hpp"

namespace weft::command {

// --optimizer with --lr, --weight-decay, --momentum, --betas, --eps and --optimizer-option key=value.
optim::Optimizer make_optimizer(const nlohmann::json& arguments, const Model& model);

// --lr-scheduler with --warmup-steps and --lr-scheduler-option key=value, for a run of `total` steps.
optim::Scheduler make_scheduler(const nlohmann::json& arguments, optim::Optimizer& optimizer, int64_t total);

// The options that were saved in `folder` hold after --resume: throws INVALID_ARGUMENT for a flag that says
// otherwise and would have no effect.
void check_resumed_flags(const nlohmann::json& arguments, optim::Optimizer& optimizer,
                         const optim::Scheduler& schedule, const std::string& folder);

}  // namespace weft::command
