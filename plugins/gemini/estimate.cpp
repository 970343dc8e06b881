#include "estimate.hpp"

#include <algorithm>
#include <numeric>

#include "trace.hpp"

namespace weft::gemini {

namespace {

struct Gathers {
  std::vector<int64_t> of_chunk;  // in one step
  int64_t most = 0;               // bytes that are gathered at once
};

Gathers count_gathers(const Trace& trace, const Placement& placement, const std::vector<int64_t>& bytes) {
  Gathers gathers{std::vector<int64_t>(bytes.size()), 0};
  std::vector<bool> gathered(bytes.size());
  int64_t now = 0;
  for (size_t operation = 0; operation < trace.operations(); ++operation) {
    const size_t unit = trace.unit_of(operation);
    const bool forward = operation < trace.units();
    for (const size_t chunk : trace.chunks_of(unit)) {
      if (gathered[chunk]) continue;
      gathered[chunk] = true;
      ++gathers.of_chunk[chunk];
      now += bytes[chunk];
    }
    gathers.most = std::max(gathers.most, now);
    for (const size_t chunk : trace.chunks_of(unit)) {
      const bool stays = forward ? trace.last_unit(chunk) != unit || unit + 1 == trace.units() ||
                                       placement.kept_gathered[chunk] || placement.evicts
                                 : trace.first_unit(chunk) != unit;
      if (stays) continue;
      gathered[chunk] = false;
      now -= bytes[chunk];
    }
  }
  return gathers;
}

}  // namespace

void estimate(const GeminiOptions& options, uint32_t world_size, const weft_job_shape& job,
              weft_job_estimate& out) {
  const int64_t copies = options.replicas, ranks = world_size / copies;
  std::vector<weft_param_shape> params(job.params, job.params + job.num_params);
  std::stable_sort(params.begin(), params.end(), [](const weft_param_shape& a, const weft_param_shape& b) {
    return a.first_unit < b.first_unit;
  });
  std::vector<int64_t> sizes;
  for (const weft_param_shape& param : params) sizes.push_back(param.elements);
  const ChunkLayout layout = search_chunks(sizes, ranks, options.search);
  std::vector<int64_t> bytes;
  std::vector<bool> trained;
  std::vector<std::vector<size_t>> chunks_of_units(job.num_units);
  for (const ChunkPlan& plan : layout.chunks) {
    trained.push_back(false);
    for (const Place& place : plan.places) {
      const weft_param_shape& param = params[place.parameter];
      trained.back() = trained.back() || param.frozen == 0;
      for (const size_t unit : {param.first_unit, param.last_unit}) {
        std::vector<size_t>& chunks = chunks_of_units[unit];
        if (std::find(chunks.begin(), chunks.end(), bytes.size()) == chunks.end())
          chunks.push_back(bytes.size());
      }
    }
    bytes.push_back(plan.size * job.working_size);
  }
  const Placement placement = place(options.placement, bytes);
  const Gathers gathers = count_gathers(Trace(std::move(chunks_of_units), bytes.size()), placement, bytes);

  const bool masters = job.master_size != job.working_size;
  const int64_t gradient_size = options.accumulate ? job.master_size : job.working_size;
  int64_t trained_elements = 0, largest = 0, shards = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int64_t others = bytes[i] / ranks * (ranks - 1);
    out.sent_all_gather += gathers.of_chunk[i] * others;
    largest = std::max(largest, bytes[i]);
    if (placement.shard_on_accelerator[i]) shards += bytes[i] / ranks;
    if (!trained[i]) continue;
    trained_elements += bytes[i] / job.working_size;
    out.sent_reduce_scatter += others;
    out.sent_all_reduce += 2 * (bytes[i] / ranks) * (copies - 1) / copies;
  }
  const int64_t elements = (layout.used + layout.wasted) / ranks;
  out.parameters = shards + (masters ? 0 : elements * job.master_size);
  out.masters = masters ? elements * job.master_size : 0;
  out.gradients = trained_elements / ranks * gradient_size;
  out.states = trained_elements / ranks * job.num_states * job.master_size;
  // Besides what is gathered: ahead, on its way to the other ranks, from them, and one gradient of
  // autograd's.
  const int64_t largest_parameter = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  out.transient = gathers.most + options.max_prefetch * largest + (options.async_reduce ? largest : 0) +
                  largest / ranks * (ranks - 1) + largest_parameter * job.working_size;
}

}  // namespace weft::gemini
