// Estimates what a job holds and sends, from shapes alone.
#pragma once

#include "options.hpp"

namespace weft::plugin::gemini {

// Fills `out`, for both pools together and as if no chunk had to be evicted.
void estimate(const GeminiOptions& options, uint32_t world_size, const weft_job_shape& job,
              weft_job_estimate& out);

}  // namespace weft::plugin::gemini
