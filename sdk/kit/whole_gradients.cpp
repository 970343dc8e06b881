#include "weft/kit/whole_gradients.hpp"

namespace weft::plugin::kit {

WholeGradients::WholeGradients(GradientBucketOptions buckets, ReplicaOptions replicas)
    : bucket_options_(buckets), replica_options_(replicas) {}

std::unique_ptr<DataAxis> WholeGradients::from_options(const Options& options, const std::string& capacity) {
  GradientBucketOptions buckets;
  if (options.has(capacity))
    buckets.capacity_bytes = static_cast<int64_t>(options.get<double>(capacity) * (1 << 20));
  buckets.views = options.get_or("gradient_as_bucket_view", buckets.views);
  buckets.find_unused = options.get_or("find_unused_parameters", buckets.find_unused);
  buckets.static_graph = options.get_or("static_graph", buckets.static_graph);
  ReplicaOptions replicas;
  replicas.broadcast_buffers = options.get_or("broadcast_buffers", replicas.broadcast_buffers);
  replicas.check_reduction = options.get_or("check_reduction", replicas.check_reduction);
  return std::make_unique<WholeGradients>(buckets, replicas);
}

void WholeGradients::configure(const Training& training) {
  values_.build(training);
  buckets_.build(training, values_.parameters(), bucket_options_);
  replicas_.build(training, replica_options_);
}

void WholeGradients::before_forward(Unit unit) {
  replicas_.before_forward(unit, buckets_);
}

void WholeGradients::begin(const Pass& pass) {
  replicas_.begin_backward(pass.synchronise, buckets_);
  buckets_.begin(pass.synchronise);
}

void WholeGradients::ready(Parameter parameter) {
  buckets_.ready(parameter);
}

void WholeGradients::end() {
  buckets_.end();
}

void WholeGradients::publish(ShardSink& sink) const {
  values_.publish(sink);
}

void WholeGradients::values_changed() {
  replicas_.values_changed(buckets_);
}

void WholeGradients::zero() {
  buckets_.zero(values_.parameters());
}

void WholeGradients::estimate(int64_t ranks, const weft_job_shape& job, weft_job_estimate& out) const {
  int64_t elements = 0, trained = 0;
  for (uint64_t i = 0; i < job.num_params; ++i) {
    elements += job.params[i]->elements;
    trained += job.params[i]->frozen ? 0 : job.params[i]->elements;
  }
  out.parameters = elements * job.working_size;
  out.gradients = (bucket_options_.views ? 1 : 2) * trained * job.working_size;
  out.masters = job.master_size == job.working_size ? 0 : trained * job.master_size;
  out.states = trained * job.num_states * job.state_size;
  out.sent_all_reduce = 2 * trained * job.working_size * (ranks - 1) / ranks;
}

}  // namespace weft::plugin::kit
