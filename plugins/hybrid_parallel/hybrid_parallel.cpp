// hybrid_parallel: the product of the axes. The host performs tensor parallelism by the model's plan; here
// are the data axis, with whole gradients (zero_stage 0) or those of ZeRO, and what the axes ask of each
// other.
#include <string>

#include "weft/torch/gradient_buckets.hpp"
#include "weft/torch/strategy.hpp"
#include "weft/torch/whole_values.hpp"
#include "weft/torch/zero_buckets.hpp"

namespace {

class HybridParallel final : public weft::Strategy {
 public:
  void describe_mesh(weft_mesh& mesh) override {
    refuse_what_is_to_come();
    mesh.size[WEFT_AXIS_DATA] = data_ranks(mesh);
  }

  void configure(weft::Training& training) override {
    const weft::Communicator data = training.communicator(1u << WEFT_AXIS_DATA);
    stage_ = options.get<int64_t>("zero_stage");
    if (stage_ == 0) {
      values_.build(training);
      weft::GradientBucketOptions chosen;
      chosen.capacity_bytes = static_cast<int64_t>(options.get<double>("ddp_bucket_cap_mb") * (1 << 20));
      chosen.views = options.get<bool>("gradient_as_bucket_view");
      chosen.find_unused = options.get<bool>("find_unused_parameters");
      chosen.static_graph = options.get<bool>("static_graph");
      gradients_.build(values_.parameters(), data, chosen);
      return;
    }
    weft::ZeroBucketOptions chosen;
    chosen.stage = stage_;
    chosen.capacity = static_cast<int64_t>(options.get<double>("zero_bucket_size_in_m") * (1 << 20));
    if (const auto dtype = options.find<std::string>("communication_dtype"))
      chosen.communication = weft::dtype_named(*dtype);
    chosen.overlap_reduction = options.get<bool>("overlap_communication");
    chosen.overlap_gather = options.get<bool>("overlap_allgather");
    zero_.build(training, weft::NestedRanks({data}), 1u << WEFT_AXIS_DATA, chosen);
  }

  void before_forward(weft::Unit unit) override {
    if (stage_ > 0) zero_.before_forward(unit);
  }
  void begin_backward(const weft::Backward& backward) override {
    if (stage_ == 0) return gradients_.begin(backward.synchronise);
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
  void values_changed() override { stage_ == 0 ? values_.refresh() : zero_.values_changed(); }
  void zero_gradients() override { stage_ == 0 ? gradients_.zero(values_.parameters()) : zero_.zero(); }

 private:
  void refuse_what_is_to_come() const {
    if (options.get<int64_t>("pp_size") != 1)
      refuse(WEFT_UNIMPLEMENTED, "pp_size is " + std::to_string(options.get<int64_t>("pp_size")) +
                                     ": this version has no pipelines; leave it 1");
    if (options.get<int64_t>("sp_size") != 1)
      refuse(WEFT_UNIMPLEMENTED,
             "sp_size: this version has no sequence axis of its own; leave 1 (sequence_parallelism_mode "
             "split_gather splits over the ranks of tp_size)");
    if (options.get<bool>("cpu_offload"))
      refuse(WEFT_UNIMPLEMENTED, "cpu_offload: this strategy does not place its state yet; use gemini");
    if (stage_of_options() == 0 && options.find<std::string>("communication_dtype"))
      refuse(WEFT_INVALID_ARGUMENT,
             "communication_dtype is for zero_stage 1 and 2; with zero_stage 0 gradients travel as they are");
  }
  int64_t stage_of_options() const { return options.get<int64_t>("zero_stage"); }

  [[noreturn]] static void refuse(weft_status status, const std::string& what) {
    throw weft::Error(status, "hybrid_parallel: " + what);
  }

  int64_t stage_ = 0;
  bool one_forward_ = true;  // the backward that runs goes through one forward
  // One of the two, by the stage.
  weft::WholeValues values_;
  weft::GradientBuckets gradients_;
  weft::ZeroBuckets zero_;
};

}  // namespace

WEFT_STRATEGY(HybridParallel, "hybrid_parallel")
