// hybrid_parallel: the product of the axes. The host performs tensor parallelism by the model's plan; here
// are the data axis, with whole gradients (zero_stage 0) or those of ZeRO, and what the axes ask of each
// other.
#include <initializer_list>
#include <string>

#include "weft/torch/estimates.hpp"
#include "weft/torch/gradient_buckets.hpp"
#include "weft/torch/replicas.hpp"
#include "weft/torch/strategy.hpp"
#include "weft/torch/whole_values.hpp"
#include "weft/torch/zero_buckets.hpp"

namespace {

class HybridParallel final : public weft::Strategy {
 public:
  void describe_mesh(weft_mesh& mesh) override {
    refuse_what_is_to_come();
    refuse_options_of_the_other_stage();
    mesh.size[WEFT_AXIS_DATA] = data_ranks(mesh);
  }

  void configure(weft::Training& training) override {
    const weft::Communicator data = training.communicator(1u << WEFT_AXIS_DATA);
    stage_ = options.get<int64_t>("zero_stage");
    stage_ == 0 ? configure_whole(training, data) : configure_zero(training, data);
  }

  void before_forward(weft::Unit unit) override {
    stage_ == 0 ? replicas_.before_forward(unit, gradients_) : zero_.before_forward(unit);
  }
  void begin_backward(const weft::Backward& backward) override {
    if (stage_ == 0) {
      replicas_.begin_backward(backward.synchronise, gradients_);
      return gradients_.begin(backward.synchronise);
    }
    const bool last = backward.index + 1 >= backward.count;
    if (stage_ == 2 && last && !backward.synchronise)
      refuse(
          WEFT_FAILED_PRECONDITION,
          "no_sync is not possible with zero_stage 2, where no rank keeps whole gradients: leave it out, or "
          "use zero_stage 1 or 0");
    one_forward_ = backward.count != 0;
    zero_.begin(backward.synchronise || stage_ == 2);
  }
  void gradient_ready(weft::Parameter parameter) override {
    stage_ == 0 ? gradients_.ready(parameter) : zero_.ready(parameter);
  }
  void after_backward(weft::Unit unit) override {
    if (stage_ > 0 && one_forward_) zero_.unit_done(unit);
  }
  void end_backward(const weft::Backward&) override { stage_ == 0 ? gradients_.end() : zero_.end(); }

  void publish(weft::ShardSink& sink) const override {
    stage_ == 0 ? values_.publish(sink) : zero_.publish(sink);
  }
  void values_changed() override {
    if (stage_ > 0) return zero_.values_changed();
    replicas_.values_changed(gradients_);
    values_.refresh();
  }
  void zero_gradients() override { stage_ == 0 ? gradients_.zero(values_.parameters()) : zero_.zero(); }

  static void estimate(const weft::Options& options, uint32_t data_size, const weft_job_shape& job,
                       weft_job_estimate& out) {
    if (options.get<int64_t>("zero_stage") > 0)
      return weft::estimate_zero(zero_options(options), data_size, job, out);
    weft::estimate_whole(flag(options, "gradient_as_bucket_view", weft::GradientBucketOptions().views),
                         data_size, job, out);
  }

 private:
  void refuse_what_is_to_come() const {
    if (options.get<int64_t>("pp_size") != 1)
      refuse(WEFT_UNIMPLEMENTED, "pp_size is " + std::to_string(options.get<int64_t>("pp_size")) +
                                     ": this version has no pipelines; leave it 1");
    if (!options.get<bool>("dp_outside"))
      refuse(WEFT_UNIMPLEMENTED,
             "dp_outside is false: that puts the data axis inside the pipeline's, and this version has no "
             "pipelines; leave it true (data-parallel ranks lie furthest apart, tensor-parallel ones side by "
             "side)");
  }

  // Null is the default of all of these, so that one that is given says so.
  void refuse_options_of_the_other_stage() const {
    const int64_t stage = options.get<int64_t>("zero_stage");
    const auto refuse_given = [&](std::initializer_list<const char*> names, const std::string& stages) {
      for (const char* name : names)
        if (options.has(name))
          refuse(WEFT_INVALID_ARGUMENT, std::string(name) + " is for zero_stage " + stages +
                                            ", but zero_stage is " + std::to_string(stage) +
                                            ": leave it out, or choose another zero_stage");
    };
    if (stage == 0)
      refuse_given({"zero_bucket_size_in_m", "communication_dtype", "overlap_communication",
                    "overlap_allgather", "cpu_offload"},
                   "1 and 2");
    else
      refuse_given({"ddp_bucket_cap_mb", "find_unused_parameters", "gradient_as_bucket_view", "static_graph",
                    "broadcast_buffers", "check_reduction"},
                   "0");
  }

  static bool flag(const weft::Options& options, const char* name, bool otherwise) {
    return options.find<bool>(name).value_or(otherwise);
  }

  void configure_whole(const weft::Training& training, weft::Communicator data) {
    values_.build(training);
    weft::GradientBucketOptions chosen;
    if (const auto size = options.find<double>("ddp_bucket_cap_mb"))
      chosen.capacity_bytes = static_cast<int64_t>(*size * (1 << 20));
    chosen.views = flag(options, "gradient_as_bucket_view", chosen.views);
    chosen.find_unused = flag(options, "find_unused_parameters", chosen.find_unused);
    chosen.static_graph = flag(options, "static_graph", chosen.static_graph);
    gradients_.build(values_.parameters(), data, chosen);
    replicas_.build(training, data,
                    {flag(options, "broadcast_buffers", true), flag(options, "check_reduction", false)});
  }

  static weft::ZeroBucketOptions zero_options(const weft::Options& options) {
    weft::ZeroBucketOptions chosen;
    chosen.stage = options.get<int64_t>("zero_stage");
    if (const auto size = options.find<double>("zero_bucket_size_in_m"))
      chosen.capacity = static_cast<int64_t>(*size * (1 << 20));
    if (const auto dtype = options.find<std::string>("communication_dtype"))
      chosen.communication = weft::dtype_named(*dtype);
    chosen.overlap_reduction = flag(options, "overlap_communication", chosen.overlap_reduction);
    chosen.overlap_gather = flag(options, "overlap_allgather", chosen.overlap_gather);
    if (flag(options, "cpu_offload", false)) chosen.home = WEFT_POOL_HOST;
    return chosen;
  }

  void configure_zero(const weft::Training& training, weft::Communicator data) {
    zero_.build(training, weft::NestedRanks({data}), 1u << WEFT_AXIS_DATA, zero_options(options));
  }

  [[noreturn]] static void refuse(weft_status status, const std::string& what) {
    throw weft::Error(status, "hybrid_parallel: " + what);
  }

  int64_t stage_ = 0;
  bool one_forward_ = true;  // the backward that runs goes through one forward
  // One of the two, by the stage.
  weft::WholeValues values_;
  weft::GradientBuckets gradients_;
  weft::Replicas replicas_;
  weft::ZeroBuckets zero_;
};

}  // namespace

WEFT_STRATEGY(HybridParallel, "hybrid_parallel")
