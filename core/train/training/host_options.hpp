// What the host performs for a strategy, as its options say: precision, loss scaling, clipping, axes.
#pragma once

#include <ATen/core/ScalarType.h>

#include <optional>
#include <string>

#include "optim/loss_scaler.hpp"
#include "plan/plan.hpp"
#include "training/pipeline_options.hpp"

namespace weft {

struct HostOptions {
  bool master_weights = true, cast_inputs = true, outputs_fp32 = false;
  std::optional<at::ScalarType> autocast;
  std::optional<optim::LossScalerOptions> scaler;
  double max_norm = 0, norm_type = 2;
  plan::ParallelSizes plan_flags;  // flags for the plan, and the sizes of the tensor and sequence axes
  PipelineOptions pipeline;
  bool values_of_rank_0 = false;  // the strategy begins with rank 0's (sync_module_states)
  std::string custom_policy;      // the name of a shard policy; empty: the model family's
};

}  // namespace weft
