// Data parallelism with ZeRO stages 1 and 2: every rank holds all parameters, but optimizer states are
// sharded. Gradients are reduce-scattered while backward runs, each rank updates its part of the parameters,
// and the updated parts are all-gathered.
#pragma once

#include <memory>
#include <string>

#include "weft/kit/data_axis.hpp"
#include "weft/kit/zero_buckets.hpp"

namespace weft::plugin::kit {

// Data parallelism with ZeRO stages 1 and 2.
class ZeroRedundancy final : public DataAxis {
 public:
  // `stage_option` is the name of the option for the stage, for error messages.
  ZeroRedundancy(const ZeroBucketOptions& options, std::string stage_option);

  // Creates it from the options that plugin.json lists among communication_dtype, overlap_communication,
  // overlap_allgather and cpu_offload. `stage` and `capacity` are the names of the options for the stage and
  // for the bucket size in 2^20 elements.
  static std::unique_ptr<DataAxis> from_options(const Options& options, const std::string& stage,
                                                const std::string& capacity);

  // Throws UNIMPLEMENTED naming `who` and the options if `mesh` has pipeline stages and `options` ask for
  // stage 2: each micro-batch has a backward of its own there, and stage 2 reduces the gradients of each.
  static void check_mesh(const Mesh& mesh, const Options& options, const std::string& who,
                         const std::string& stage);

  // Shards each parameter over the axes that its gradient is summed over.
  void configure(const Training& training) override;
  void before_forward(Unit unit) override;
  // Throws if stage 2 is asked not to reduce the gradients of a backward.
  void begin(const Pass& pass) override;
  void ready(Parameter parameter) override;
  void unit_done(Unit unit) override;
  void end() override;
  void publish(ShardSink& sink) const override;
  void values_changed() override;
  void zero() override;
  void estimate(int64_t ranks, const weft_job_shape& job, weft_job_estimate& out) const override;

  // Returns a line for the log with the number of buckets, elements, padding, and elements that this rank
  // updates.
  std::string layout() const;

 private:
  ZeroBucketOptions options_;
  std::string stage_option_;
  bool one_forward_ = true;  // the current backward goes through one forward
  ZeroBuckets buckets_;
};

}  // namespace weft::plugin::kit
