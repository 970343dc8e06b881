// Splits a batch into the micro-batches of a step.
#pragma once

#include <vector>

#include "training/pipeline_options.hpp"
#include "weft/state.hpp"

namespace weft {

// Splits a batch into `accumulate` parts whose sizes differ by at most one, and each part again:
// - with PipelineOptions::micro_batch_size, into micro-batches of that size; the last one may be smaller;
// - otherwise into PipelineOptions::micro_batches; if that is not given either, into one for each stage, the
//   fewest with which all stages can work at the same time.
// A micro-batch that would be empty is a stand-in that counts nothing, so ranks with batches of different
// sizes have equally many. With a micro_batch_size they may differ by as many as their batches need.
std::vector<Batch> micro_batches(const Batch& batch, int64_t accumulate, const PipelineOptions& pipeline);

}  // namespace weft
