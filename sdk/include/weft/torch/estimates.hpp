// What jobs hold and send on the data axis, for a strategy's `estimate`: the formulas of GradientBuckets and
// ZeroBuckets.
#pragma once

#include <algorithm>
#include <utility>

#include "weft/strategy.h"
#include "weft/torch/zero_buckets.hpp"

namespace weft {

// Whole gradients on each of `ranks`, summed in buckets; `views`: they lie in these alone.
inline void estimate_whole(bool views, int64_t ranks, const weft_job_shape& job, weft_job_estimate& out) {
  int64_t elements = 0, trained = 0;
  for (uint64_t i = 0; i < job.num_params; ++i) {
    elements += job.params[i].elements;
    trained += job.params[i].frozen ? 0 : job.params[i].elements;
  }
  out.parameters = elements * job.working_size;
  out.gradients = (views ? 1 : 2) * trained * job.working_size;
  out.masters = job.master_size == job.working_size ? 0 : trained * job.master_size;
  out.states = trained * job.num_states * job.state_size;
  out.sent_all_reduce = 2 * trained * job.working_size * (ranks - 1) / ranks;
}

// ZeRO stages 1 and 2 over `ranks`.
inline void estimate_zero(const ZeroBucketOptions& options, int64_t ranks, const weft_job_shape& job,
                          weft_job_estimate& out) {
  const int64_t size = job.working_size;
  const bool offloads = options.home == WEFT_POOL_HOST, stage_2 = options.stage == 2;
  const ZeroFill fill{options.capacity, ranks, ZeroFill::alignment_of(size)};
  int64_t padded = 0, frozen = 0, largest_bucket = 0, largest = 0, open = 0;
  const auto close = [&] {
    open = fill.close(open);
    padded += open;
    largest_bucket = std::max(largest_bucket, std::exchange(open, 0));
  };
  for (uint64_t i = job.num_params; i-- > 0;) {
    const int64_t count = job.params[i].elements;
    if (job.params[i].frozen) {
      frozen += count;
      continue;
    }
    if (!fill.takes(open, count)) close();
    open = fill.append(open, count);
    largest = std::max(largest, count);
  }
  close();
  const int64_t sent_size =
      options.communication ? static_cast<int64_t>(c10::elementSize(*options.communication)) : size;
  out.parameters = (padded + frozen) * size;
  out.gradients = padded / (stage_2 || offloads ? ranks : 1) * size;
  out.masters = job.master_size != job.working_size || offloads ? padded / ranks * job.master_size : 0;
  out.states = padded / ranks * job.num_states * job.state_size;
  if (offloads) out.host = out.gradients + out.masters + out.states;
  // Whether buckets are freed while backward goes on.
  const bool frees = stage_2 || options.overlap_reduction;
  const int64_t collected = !stage_2 && !offloads ? 0 : frees ? 2 * largest_bucket : padded;
  out.transient = (largest + collected) * size + largest_bucket / ranks * (ranks - 1) * sent_size;
  out.sent_reduce_scatter = padded / ranks * (ranks - 1) * sent_size;
  out.sent_all_gather = padded / ranks * (ranks - 1) * size;
}

}  // namespace weft
