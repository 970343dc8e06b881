// Estimates what torch_fsdp holds and sends, from shapes alone.
#pragma once

#include "weft/torch/strategy.hpp"

namespace weft::plugin::torch_fsdp {

void estimate(const Options& options, uint32_t world_size, const weft_job_shape& job, weft_job_estimate& out);

}  // namespace weft::plugin::torch_fsdp
