// low_level_zero: ZeRO stages 1 and 2. Every rank holds the parameters; the gradients of a bucket are summed
// to the ranks that own its parts while backward runs, and the updated parts are gathered after a step.
#include <string>
#include <utility>

#include "weft/torch/estimates.hpp"
#include "weft/torch/strategy.hpp"
#include "weft/torch/zero_buckets.hpp"

namespace {

class LowLevelZero final : public weft::Strategy {
 public:
  // Neighbours share a group, replicas of the groups lie further apart.
  void describe_mesh(weft_mesh& mesh) override {
    const int64_t groups = options.get<int64_t>("extra_dp_size");
    const uint32_t ranks = data_ranks(mesh);
    if (ranks % groups != 0)
      refuse(WEFT_INVALID_ARGUMENT, "extra_dp_size is " + std::to_string(groups) + ", must divide the " +
                                        std::to_string(ranks) + " data-parallel ranks");
    mesh.size[WEFT_AXIS_REPLICA] = static_cast<uint32_t>(groups);
    mesh.size[WEFT_AXIS_DATA] = static_cast<uint32_t>(ranks / groups);
  }

  void configure(weft::Training& training) override {
    stage_ = options.get<int64_t>("stage");
    std::vector<weft::Communicator> groups = {training.communicator(1u << WEFT_AXIS_DATA)};
    if (options.get<int64_t>("extra_dp_size") > 1)
      groups.push_back(training.communicator(1u << WEFT_AXIS_REPLICA));
    buckets_.build(training, weft::NestedRanks(std::move(groups)),
                   1u << WEFT_AXIS_DATA | 1u << WEFT_AXIS_REPLICA, bucket_options(options));
    if (options.get<bool>("verbose")) log_layout();
  }

  void before_forward(weft::Unit unit) override { buckets_.before_forward(unit); }

  void begin_backward(const weft::Backward& backward) override {
    const bool last = backward.index + 1 >= backward.count;
    if (stage_ == 2 && last && !backward.synchronise)
      refuse(WEFT_FAILED_PRECONDITION,
             "no_sync is not possible in stage 2, where no rank keeps whole gradients: leave it out (every "
             "backward is summed, and the sums add up), or use stage 1");
    one_forward_ = backward.count != 0;
    buckets_.begin(backward.synchronise || stage_ == 2);
  }
  void gradient_ready(weft::Parameter parameter) override { buckets_.ready(parameter); }
  void after_backward(weft::Unit unit) override {
    if (one_forward_) buckets_.unit_done(unit);
  }
  void end_backward(const weft::Backward&) override { buckets_.end(); }

  void publish(weft::ShardSink& sink) const override { buckets_.publish(sink); }
  void values_changed() override { buckets_.values_changed(); }
  void zero_gradients() override { buckets_.zero(); }

  static void estimate(const weft::Options& options, uint32_t world_size, const weft_job_shape& job,
                       weft_job_estimate& out) {
    weft::estimate_zero(bucket_options(options), world_size, job, out);
  }

 private:
  static weft::ZeroBucketOptions bucket_options(const weft::Options& options) {
    weft::ZeroBucketOptions chosen;
    chosen.stage = options.get<int64_t>("stage");
    chosen.capacity = static_cast<int64_t>(options.get<double>("reduce_bucket_size_in_m") * (1 << 20));
    if (const auto dtype = options.find<std::string>("communication_dtype"))
      chosen.communication = weft::dtype_named(*dtype);
    chosen.overlap_reduction = options.get<bool>("overlap_communication");
    chosen.overlap_gather = options.get<bool>("overlap_allgather");
    if (options.get<bool>("cpu_offload")) chosen.home = WEFT_POOL_HOST;
    return chosen;
  }

  [[noreturn]] static void refuse(weft_status status, const std::string& what) {
    throw weft::Error(status, "low_level_zero: " + what);
  }

  void log_layout() const {
    int64_t elements = 0, padded = 0;
    for (const auto& bucket : buckets_.values().buckets()) {
      padded += bucket.size;
      for (const auto& entry : bucket.entries) elements += entry.count;
    }
    const std::string text =
        "stage " + std::to_string(stage_) + ": " + std::to_string(buckets_.values().buckets().size()) +
        " buckets of " + std::to_string(elements) + " elements and " + std::to_string(padded - elements) +
        " of padding; this rank updates " +
        std::to_string(padded / training.communicator(1u << WEFT_AXIS_DATA | 1u << WEFT_AXIS_REPLICA).size());
    weft::host.host->log(WEFT_LOG_INFO, weft::str("low_level_zero"), weft::str(text));
  }

  int64_t stage_ = 1;
  bool one_forward_ = true;  // the backward that runs goes through one forward
  weft::ZeroBuckets buckets_;
};

}  // namespace

WEFT_STRATEGY(LowLevelZero, "low_level_zero")
