#include "estimate.hpp"

#include <algorithm>
#include <numeric>

#include "trace.hpp"

namespace weft::plugin::gemini {

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
  std::vector<const weft_param_shape*> params(job.params, job.params + job.num_params);
  std::stable_sort(params.begin(), params.end(), [](const weft_param_shape* a, const weft_param_shape* b) {
    return a->first_unit < b->first_unit;
  });
  std::vector<int64_t> sizes;
  for (const weft_param_shape* param : params) sizes.push_back(param->elements);
  const ChunkLayout layout = search_chunks(sizes, ranks, options.search);
  std::vector<int64_t> bytes, trained;  // by chunk: of its buffer, and elements that are not frozen
  std::vector<std::vector<size_t>> chunks_of_units(job.num_units);
  for (const ChunkPlan& plan : layout.chunks) {
    trained.push_back(0);
    for (const Place& place : plan.places) {
      const weft_param_shape& param = *params[place.parameter];
      if (param.frozen == 0) trained.back() += param.elements;
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
  int64_t largest = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int64_t others = bytes[i] / ranks * (ranks - 1);
    out.sent_all_gather += gathers.of_chunk[i] * others;
    largest = std::max(largest, bytes[i]);
    const int64_t part = bytes[i] / job.working_size / ranks;
    const bool has_masters = masters && trained[i] > 0;
    const bool rounds = has_masters && placement.optimizer_on_host[i];
    const int64_t values =
        part * (has_masters ? job.master_size + (rounds ? job.working_size : 0) : job.working_size);
    const int64_t gradients = trained[i] > 0 ? part * gradient_size : 0;
    const int64_t states = std::min(part, trained[i]) * job.num_states * job.state_size;
    (has_masters ? out.masters : out.parameters) += values;
    out.gradients += gradients;
    out.states += states;
    if (placement.optimizer_on_host[i]) out.host += values + gradients + states;
    if (placement.shard_on_accelerator[i]) out.parameters += bytes[i] / ranks;
    if (trained[i] == 0) continue;
    out.sent_reduce_scatter += others;
    out.sent_all_reduce += 2 * (bytes[i] / ranks) * (copies - 1) / copies;
  }
  // In addition to gathered chunks: prefetched ones, one that is being reduced, its result, one whose result
  // is on the way to the host, and one gradient in .grad.
  const int64_t largest_parameter = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
  out.transient = gathers.most + options.max_prefetch * largest + (options.async_reduce ? largest : 0) +
                  (out.host > 0 ? largest : 0) + largest / ranks * (ranks - 1) +
                  largest_parameter * job.working_size;
}

}  // namespace weft::plugin::gemini
