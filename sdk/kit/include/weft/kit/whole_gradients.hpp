// Data parallelism as in PyTorch's DistributedDataParallel: every rank holds all parameters, gradients and
// optimizer states, and gradients are all-reduced in buckets while backward runs.
#pragma once

#include <memory>
#include <string>

#include "weft/kit/data_axis.hpp"
#include "weft/kit/gradient_buckets.hpp"
#include "weft/kit/replicas.hpp"
#include "weft/kit/whole_values.hpp"

namespace weft::plugin::kit {

// Data parallelism with replicated gradients.
class WholeGradients final : public DataAxis {
 public:
  WholeGradients(GradientBucketOptions buckets, ReplicaOptions replicas);

  // Creates it from the options that plugin.json lists among gradient_as_bucket_view, find_unused_parameters,
  // static_graph, broadcast_buffers and check_reduction. `capacity` is the name of the option for the bucket
  // size in MiB.
  static std::unique_ptr<DataAxis> from_options(const Options& options, const std::string& capacity);

  void configure(const Training& training) override;
  void before_forward(Unit unit) override;
  void begin(const Pass& pass) override;
  void ready(Parameter parameter) override;
  void unit_done(Unit) override {}
  void end() override;
  void publish(ShardSink& sink) const override;
  void values_changed() override;
  void zero() override;
  void estimate(int64_t ranks, const weft_job_shape& job, weft_job_estimate& out) const override;

 private:
  GradientBucketOptions bucket_options_;
  ReplicaOptions replica_options_;
  WholeValues values_;
  GradientBuckets buckets_;
  Replicas replicas_;
};

}  // namespace weft::plugin::kit
