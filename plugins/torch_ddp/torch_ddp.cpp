// torch_ddp: data parallelism as PyTorch's DistributedDataParallel. Every rank holds the whole model;
// gradients are summed in buckets while backward runs.
#include "weft/torch/estimates.hpp"
#include "weft/torch/gradient_buckets.hpp"
#include "weft/torch/replicas.hpp"
#include "weft/torch/strategy.hpp"
#include "weft/torch/whole_values.hpp"

namespace {

class DistributedDataParallel final : public weft::Strategy {
 public:
  void configure(weft::Training& training) override {
    const weft::Communicator data = training.communicator(1u << WEFT_AXIS_DATA);
    values_.build(training);
    weft::GradientBucketOptions buckets;
    buckets.capacity_bytes = static_cast<int64_t>(options.get<double>("bucket_cap_mb") * (1 << 20));
    buckets.views = options.get<bool>("gradient_as_bucket_view");
    buckets.find_unused = options.get<bool>("find_unused_parameters");
    buckets.static_graph = options.get<bool>("static_graph");
    buckets_.build(values_.parameters(), data, buckets);
    replicas_.build(training, data,
                    {options.get<bool>("broadcast_buffers"), options.get<bool>("check_reduction")});
  }

  void before_forward(weft::Unit unit) override { replicas_.before_forward(unit, buckets_); }

  void begin_backward(const weft::Backward& backward) override {
    replicas_.begin_backward(backward.synchronise, buckets_);
    buckets_.begin(backward.synchronise);
  }
  void gradient_ready(weft::Parameter parameter) override { buckets_.ready(parameter); }
  void end_backward(const weft::Backward&) override { buckets_.end(); }

  void publish(weft::ShardSink& sink) const override { values_.publish(sink); }
  void values_changed() override {
    replicas_.values_changed(buckets_);
    values_.refresh();
  }
  void zero_gradients() override { buckets_.zero(values_.parameters()); }

  static void estimate(const weft::Options& options, uint32_t world_size, const weft_job_shape& job,
                       weft_job_estimate& out) {
    weft::estimate_whole(options.get<bool>("gradient_as_bucket_view"), world_size, job, out);
  }

 private:
  weft::WholeValues values_;
  weft::GradientBuckets buckets_;
  weft::Replicas replicas_;
};

}  // namespace

WEFT_STRATEGY(DistributedDataParallel, "torch_ddp")
