// Estimates what torch_fsdp holds and sends, from shapes alone.
#pragma once

#include "weft/torch/strategy.hpp"

namespace torch_fsdp {

void estimate(const weft::Options& options, uint32_t world_size, const weft_job_shape& job,
              weft_job_estimate& out);

}  // namespace torch_fsdp
