// What a job holds and sends, from shapes alone.
#pragma once

#include "options.hpp"

namespace weft::gemini {

// As weft_job_estimate; both pools together, as if nothing had to be evicted for want of room.
void estimate(const GeminiOptions& options, uint32_t world_size, const weft_job_shape& job,
              weft_job_estimate& out);

}  // namespace weft::gemini
