// Data parallelism without redundant optimizer states: stages 1 and 2 of ZeRO. Every rank holds the
// parameters; gradients are reduce-scattered while backward runs, each rank updates its part, and the updated
// parts are gathered.
#pragma once

#include <memory>
#include <string>

#include "weft/kit/data_axis.hpp"
#include "weft/kit/zero_buckets.hpp"

namespace weft::kit {

// The data axis of ZeRO stages 1 and 2.
class ZeroRedundancy final : public DataAxis {
 public:
  // `stage_option` is what users call the stage, for messages.
  ZeroRedundancy(const ZeroBucketOptions& options, std::string stage_option);

  // Reads those options that plugin.json lists: communication_dtype, overlap_communication,
  // overlap_allgather, cpu_offload, and `stage` and `capacity`, the names of the stage and of a bucket's size
  // in 2^20 elements.
  static std::unique_ptr<DataAxis> from_options(const Options& options, const std::string& stage,
                                                const std::string& capacity);

  // Shards each parameter over the axes that its gradient is summed over.
  void configure(const Training& training) override;
  void before_forward(Unit unit) override;
  // Throws if a backward of stage 2 is not to be summed.
  void begin(const Backward& backward) override;
  void ready(Parameter parameter) override;
  void unit_done(Unit unit) override;
  void end() override;
  void publish(ShardSink& sink) const override;
  void values_changed() override;
  void zero() override;
  void estimate(int64_t ranks, const weft_job_shape& job, weft_job_estimate& out) const override;

  // Returns a line for the log: buckets, elements, padding, and what this rank updates.
  std::string layout() const;

 private:
  ZeroBucketOptions options_;
  std::string stage_option_;
  bool one_forward_ = true;  // the backward that runs goes through one forward
  ZeroBuckets buckets_;
};

}  // namespace weft::kit
