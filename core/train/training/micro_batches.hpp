// Splits a batch into the micro-batches of a step.
#pragma once

#include <vector>

#include "training/pipeline_options.hpp"
#include "weft/state.hpp"
#include "weft/world.hpp"

namespace weft {

// Splits a batch into `accumulate` parts whose sizes differ by at most one, and each part again:
// - with PipelineOptions::micro_batch_size, into micro-batches of that size; the last one may be smaller;
// - otherwise into PipelineOptions::micro_batches; if that is not given either, into one for each stage, the
//   fewest with which all stages can work at the same time.
// A micro-batch that would be empty is a stand-in that counts nothing, so ranks with batches of different
// sizes have equally many, unless micro_batch_size is given.
std::vector<Batch> micro_batches(const Batch& batch, int64_t accumulate, const PipelineOptions& pipeline);

// Does the same, and appends stand-ins until this rank has as many micro-batches as any of `samples`, the
// ranks that have other samples: strategies may communicate with these in each forward and backward.
// Collective over them if micro_batch_size is given.
std::vector<Batch> micro_batches(const Batch& batch, int64_t accumulate, const PipelineOptions& pipeline,
                                 const Communicator& samples);

}  // namespace weft
