#include "weft/kit/zero_redundancy.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace weft::plugin::kit {

ZeroRedundancy::ZeroRedundancy(const ZeroBucketOptions& options, std::string stage_option)
    : options_(options), stage_option_(std::move(stage_option)) {}

std::unique_ptr<DataAxis> ZeroRedundancy::from_options(const Options& options, const std::string& stage,
                                                       const std::string& capacity) {
  ZeroBucketOptions chosen;
  chosen.stage = options.get<int64_t>(stage);
  if (options.has(capacity))
    chosen.capacity = static_cast<int64_t>(options.get<double>(capacity) * (1 << 20));
  if (options.has("communication_dtype"))
    chosen.communication = dtype_named(options.get<std::string>("communication_dtype"));
  chosen.overlap_reduction = options.get_or("overlap_communication", chosen.overlap_reduction);
  chosen.overlap_gather = options.get_or("overlap_allgather", chosen.overlap_gather);
  if (options.get_or("cpu_offload", false)) chosen.home = WEFT_POOL_OFFLOAD;
  return std::make_unique<ZeroRedundancy>(chosen, stage);
}

void ZeroRedundancy::check_mesh(const Mesh& mesh, const Options& options, const std::string& who,
                                const std::string& stage) {
  if (mesh.size("stages") == 1 || options.get<int64_t>(stage) != 2) return;
  throw Error(WEFT_UNIMPLEMENTED,
              who + ": " + stage + " is 2 with pp_size " + std::to_string(mesh.size("stages")) +
                  ": all gradients would be reduced once for each micro-batch of the pipeline, because no "
                  "rank keeps them whole; set " +
                  stage + " to 1");
}

void ZeroRedundancy::configure(const Training& training) {
  buckets_.build(training, options_);
}

void ZeroRedundancy::before_forward(Unit unit) {
  buckets_.before_forward(unit);
}

void ZeroRedundancy::begin(const Pass& pass) {
  const bool last = pass.micro + 1 >= pass.num_micros;
  if (options_.stage == 2 && last && !pass.synchronise)
    throw Error(
        WEFT_FAILED_PRECONDITION,
        "no_sync is not possible with " + stage_option_ +
            " 2, where no rank keeps whole gradients: leave it out (every backward is summed, and the "
            "sums add up), or use " +
            stage_option_ + " 1");
  one_forward_ = pass.num_micros != 0;
  buckets_.begin(pass.synchronise || options_.stage == 2);
}

void ZeroRedundancy::ready(Parameter parameter) {
  buckets_.ready(parameter);
}

void ZeroRedundancy::unit_done(Unit unit) {
  if (one_forward_) buckets_.unit_done(unit);
}

void ZeroRedundancy::end() {
  buckets_.end();
}

void ZeroRedundancy::publish(ShardSink& sink) const {
  buckets_.publish(sink);
}

void ZeroRedundancy::values_changed() {
  buckets_.values_changed();
}

void ZeroRedundancy::zero() {
  buckets_.zero();
}

void ZeroRedundancy::estimate(int64_t ranks, const weft_job_shape& job, weft_job_estimate& out) const {
  const int64_t size = job.working_size;
  const bool offloads = options_.home != WEFT_POOL_ACCELERATOR, stage_2 = options_.stage == 2;
  const ZeroFill fill{options_.capacity, ranks, ZeroFill::alignment_of(size)};
  int64_t padded = 0, frozen = 0, largest_bucket = 0, largest = 0, open = 0;
  const auto close = [&] {
    open = fill.close(open);
    padded += open;
    largest_bucket = std::max(largest_bucket, std::exchange(open, 0));
  };
  for (uint64_t i = job.num_params; i-- > 0;) {
    const int64_t count = job.params[i]->elements;
    if (job.params[i]->frozen) {
      frozen += count;
      continue;
    }
    if (!fill.takes(open, count)) close();
    open = fill.append(open, count);
    largest = std::max(largest, count);
  }
  close();
  const int64_t sent_size =
      options_.communication ? static_cast<int64_t>(c10::elementSize(*options_.communication)) : size;
  out.parameters = (padded + frozen) * size;
  out.gradients = padded / (stage_2 || offloads ? ranks : 1) * size;
  out.masters = job.master_size != job.working_size || offloads ? padded / ranks * job.master_size : 0;
  if (offloads && job.master_size != job.working_size) out.masters += padded / ranks * job.working_size;
  out.states = padded / ranks * job.num_states * job.state_size;
  if (offloads) out.host = out.gradients + out.masters + out.states;
  // True if buckets are freed while backward runs: one is filled, one reduced, and one on the way to the
  // host.
  const bool frees = stage_2 || options_.overlap_reduction;
  const int64_t alive = (offloads ? 3 : 2) * largest_bucket;
  const int64_t collected = !stage_2 && !offloads ? 0 : frees ? std::min(alive, padded) : padded;
  out.transient = (largest + collected) * size + largest_bucket / ranks * (ranks - 1) * sent_size;
  out.sent_reduce_scatter = padded / ranks * (ranks - 1) * sent_size;
  out.sent_all_gather = padded / ranks * (ranks - 1) * size;
}

std::string ZeroRedundancy::layout() const {
  int64_t elements = 0, padded = 0, own = 0;
  for (const ZeroValues::Bucket& bucket : buckets_.values().buckets()) {
    padded += bucket.size;
    own += bucket.size / bucket.ranks.size();
    for (const ZeroValues::Entry& entry : bucket.entries) elements += entry.count;
  }
  return "stage " + std::to_string(options_.stage) + ": " +
         std::to_string(buckets_.values().buckets().size()) + " buckets of " + std::to_string(elements) +
         " elements and " + std::to_string(padded - elements) + " of padding; this rank updates " +
         std::to_string(own);
}

}  // namespace weft::plugin::kit
