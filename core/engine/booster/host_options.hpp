// What the host performs for every strategy: precision, scaling of the loss, clipping. A strategy whose
// plugin.json lists one of these options by name leaves it to the host (weft/strategy.h has the list); a job
// without such a strategy has the defaults, or the booster's generic switch `mixed_precision`.
#pragma once

#include <ATen/core/ScalarType.h>

#include <optional>
#include <string>

#include "base/options.hpp"
#include "optim/loss_scaler.hpp"
#include "plan/plan.hpp"
#include "weft/booster.hpp"

namespace weft {

struct HostOptions {
  bool master_weights = true, cast_inputs = true, outputs_fp32 = false;
  std::optional<at::ScalarType> autocast;
  std::optional<optim::LossScalerOptions> scaler;
  double max_norm = 0, norm_type = 2;
  plan::ParallelSizes
      plan_flags;             // what the plan may look at: flags, and the tensor axis that the host opens
  std::string custom_policy;  // the shard policy by name; empty: the model family's
};

// The precision of a job: the booster's, its strategy's option `precision` or `param_dtype` in
// `mixed_precision`, or "fp32". Throws INVALID_ARGUMENT if they differ, and for names that are none.
std::string resolve_precision(const BoosterOptions& booster);

// Throws INVALID_ARGUMENT or UNIMPLEMENTED naming the option, what was found and what is possible. `table`
// and `options` are the strategy's.
HostOptions host_options(const BoosterOptions& booster, const OptionTable& table, const Options& options);

}  // namespace weft
