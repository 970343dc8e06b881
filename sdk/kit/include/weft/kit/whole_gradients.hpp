// Data parallelism with whole gradients: every rank holds the model, its gradients and the optimizer's state,
// and gradients are summed in buckets while backward runs.
#pragma once

#include <memory>
#include <string>

#include "weft/kit/data_axis.hpp"
#include "weft/kit/gradient_buckets.hpp"
#include "weft/kit/replicas.hpp"
#include "weft/kit/whole_values.hpp"

namespace weft::kit {

// The data axis on which every rank keeps whole gradients.
class WholeGradients final : public DataAxis {
 public:
  WholeGradients(GradientBucketOptions buckets, ReplicaOptions replicas);

  // Reads those options that plugin.json lists: gradient_as_bucket_view, find_unused_parameters,
  // static_graph, broadcast_buffers, check_reduction, and `capacity`, the name of the one that is a bucket's
  // size in MiB.
  static std::unique_ptr<DataAxis> from_options(const Options& options, const std::string& capacity);

  void configure(const Training& training) override;
  void before_forward(Unit unit) override;
  void begin(const Backward& backward) override;
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

}  // namespace weft::kit
