#include "estimate.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "settings.hpp"

namespace weft::plugin::torch_fsdp {

namespace {

// A flat buffer of parameters: the first and last wrap that use it, and whether it is frozen.
using Key = std::tuple<size_t, size_t, bool>;

std::map<Key, int64_t> flat_buffers(const weft_job_shape& job, const std::vector<size_t>& wrap_of) {
  std::map<Key, int64_t> elements;
  for (uint64_t i = 0; i < job.num_params; ++i) {
    const weft_param_shape& param = *job.params[i];
    elements[{wrap_of[param.first_unit], wrap_of[param.last_unit], param.frozen != 0}] += param.elements;
  }
  return elements;
}

std::vector<size_t> wraps_of(const weft_job_shape& job, const Settings& settings) {
  std::vector<int64_t> own(job.num_units);
  for (uint64_t i = 0; i < job.num_params; ++i) own[job.params[i]->first_unit] += job.params[i]->elements;
  return wrap_units(own, settings);
}

}  // namespace

void estimate(const Options& options, uint32_t world_size, const weft_job_shape& job,
              weft_job_estimate& out) {
  const Settings settings = Settings::read(options, world_size);
  if (!settings.ignored_modules.empty())
    throw Error(WEFT_UNIMPLEMENTED,
                "torch_fsdp: an estimate knows shapes only, so none with ignored_modules");
  const int64_t ranks = settings.group_size(world_size), replicas = world_size / ranks;
  const int64_t reduced = settings.reduce_dtype
                              ? static_cast<int64_t>(c10::elementSize(*settings.reduce_dtype))
                              : job.working_size;
  const bool masters = job.master_size != job.working_size;
  const std::vector<size_t> wrap_of = wraps_of(job, settings);
  std::vector<int64_t> alone(wrap_of.empty() ? 0 : wrap_of.back() + 1);  // elements that only one wrap uses
  int64_t shared = 0, all = 0;
  for (const auto& [key, elements] : flat_buffers(job, wrap_of)) {
    const auto& [first, last, frozen] = key;
    const int64_t part = (elements + ranks - 1) / ranks;
    const bool again = settings.reshard_after_forward() && last != wrap_of.back();
    const bool has_masters = masters && !frozen;
    (has_masters ? out.masters : out.parameters) += part * (has_masters ? job.master_size : job.working_size);
    if (settings.offloads && has_masters) out.masters += part * job.working_size;
    out.sent_all_gather += (again ? 2 : 1) * (ranks - 1) * part * job.working_size;
    all += elements;
    (first == last ? alone[first] : shared) += elements;
    if (frozen) continue;
    out.gradients += part * job.master_size;
    out.states += part * job.num_states * job.state_size;
    out.sent_reduce_scatter += (ranks - 1) * part * reduced;
    out.sent_all_reduce += 2 * part * reduced * (replicas - 1) / replicas;
  }
  if (settings.offloads) out.host = out.parameters + out.gradients + out.masters + out.states;
  // The current wrap and the prefetched one, the gradients of the current one, and those that are being
  // reduced with the result.
  const int64_t largest = alone.empty() ? 0 : *std::max_element(alone.begin(), alone.end());
  const bool gathers = ranks > 1 || masters || settings.offloads;
  const int64_t gathered = !gathers ? 0 : settings.reshard_after_forward() ? 2 * largest + shared : all;
  out.transient = gathered * job.working_size + (3 * largest + shared) * reduced;
  if (settings.offloads) out.transient += 2 * largest / ranks * job.master_size;  // on the way to the host
}

}  // namespace weft::plugin::torch_fsdp
