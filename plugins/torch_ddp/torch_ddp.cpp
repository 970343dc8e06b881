// torch_ddp: data parallelism as PyTorch's DistributedDataParallel. Every rank holds the whole model;
// gradients are summed in buckets while backward runs.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <string>
#include <vector>

#include "weft/torch/gradient_buckets.hpp"
#include "weft/torch/strategy.hpp"
#include "weft/torch/whole_values.hpp"

namespace {

class DistributedDataParallel final : public weft::Strategy {
 public:
  void configure(weft::Training& training) override {
    data_ = training.communicator(1u << WEFT_AXIS_DATA);
    values_.build(training);
    buffers_ = training.buffers();
    weft::GradientBucketOptions buckets;
    buckets.capacity_bytes = static_cast<int64_t>(options.get<double>("bucket_cap_mb") * (1 << 20));
    buckets.views = options.get<bool>("gradient_as_bucket_view");
    buckets.find_unused = options.get<bool>("find_unused_parameters");
    buckets.static_graph = options.get<bool>("static_graph");
    buckets_.build(values_.parameters(), data_, buckets);
    broadcast_buffers_ = options.get<bool>("broadcast_buffers") && !buffers_.empty();
    check_reduction_ = options.get<bool>("check_reduction");
  }

  void before_forward(weft::Unit unit) override {
    if (unit.index() != 0 || data_.size() == 1) return;
    if (check_reduction_) check_agreement(kForward);
    if (!broadcast_buffers_) return;
    std::vector<weft::Work> works;
    for (const at::Tensor& buffer : buffers_) works.push_back(data_.broadcast(buffer, 0));
    for (weft::Work& work : works) work.wait();
  }

  void begin_backward(const weft::Backward& backward) override {
    if (check_reduction_ && data_.size() > 1)
      check_agreement(backward.synchronise ? kBackward : kLocalBackward);
    buckets_.begin(backward.synchronise);
    ++backwards_;
    synchronised_ += backward.synchronise;
  }
  void gradient_ready(weft::Parameter parameter) override { buckets_.ready(parameter); }
  void end_backward(const weft::Backward&) override { buckets_.end(); }

  void publish(weft::ShardSink& sink) const override { values_.publish(sink); }
  void values_changed() override {
    changed_alone_ = changed_alone_ || buckets_.local();
    values_.refresh();
  }
  void zero_gradients() override { buckets_.zero(values_.parameters()); }

  static void estimate(const weft::Options& options, uint32_t world_size, const weft_job_shape& job,
                       weft_job_estimate& out) {
    int64_t elements = 0, trained = 0;
    for (uint64_t i = 0; i < job.num_params; ++i) {
      elements += job.params[i].elements;
      trained += job.params[i].frozen ? 0 : job.params[i].elements;
    }
    const int64_t copies = options.get<bool>("gradient_as_bucket_view") ? 1 : 2;
    out.parameters = elements * job.working_size;
    out.gradients = copies * trained * job.working_size;
    out.masters = job.master_size == job.working_size ? 0 : trained * job.master_size;
    out.states = trained * job.num_states * job.state_size;
    out.sent_all_reduce = 2 * trained * job.working_size * (world_size - 1) / world_size;
  }

 private:
  enum Phase : int64_t { kForward, kLocalBackward, kBackward };

  // Every rank stands at the same place, the sums of the last synchronised backward were all issued, and
  // nobody updated with gradients that were never summed. Otherwise the next collectives would meet the wrong
  // partners, and hang.
  void check_agreement(Phase phase) {
    const int64_t missing = synchronised_ ? static_cast<int64_t>(buckets_.count() - buckets_.started()) : 0;
    const std::array<int64_t, 5> own = {phase, backwards_, synchronised_, missing, changed_alone_};
    const at::Tensor bounds = at::empty({2, 5}, at::kLong);
    auto* const highest = bounds.data_ptr<int64_t>();
    for (size_t i = 0; i < own.size(); ++i) {
      highest[i] = own[i];
      highest[own.size() + i] = -own[i];
    }
    data_.all_reduce(bounds, WEFT_REDUCE_MAX | WEFT_REDUCE_CONTROL).wait();
    const auto lowest = [&](size_t i) { return -highest[own.size() + i]; };
    static const char* const kPlaces[] = {"a forward", "a backward under no_sync", "a backward"};
    if (highest[0] != lowest(0))
      refuse(std::string("ranks disagree: some begin ") + kPlaces[lowest(0)] + ", others " +
             kPlaces[highest[0]] + "; this one begins " + kPlaces[phase]);
    for (const size_t i : {1, 2})
      if (highest[i] != lowest(i))
        refuse("ranks disagree: they ran between " + std::to_string(lowest(i)) + " and " +
               std::to_string(highest[i]) + (i == 1 ? " backwards" : " synchronised backwards") +
               ", this one " + std::to_string(own[i]));
    if (highest[3] != 0)
      refuse("the last backward left out " + std::to_string(highest[3]) + " of " +
             std::to_string(buckets_.count()) +
             " sums on some rank; its gradients are not those of the global batch");
    if (highest[4] != 0)
      refuse(
          "parameters were updated with gradients that were never summed over the ranks, of backwards under "
          "no_sync "
          "with no synchronised one after them; the ranks' parameters differ now");
  }

  [[noreturn]] static void refuse(const std::string& what) {
    throw weft::Error(WEFT_FAILED_PRECONDITION, "torch_ddp: check_reduction: " + what);
  }

  weft::Communicator data_;
  weft::WholeValues values_;
  std::vector<at::Tensor> buffers_;
  weft::GradientBuckets buckets_;
  bool broadcast_buffers_ = false, check_reduction_ = false;
  int64_t backwards_ = 0, synchronised_ = 0;  // so far
  bool changed_alone_ = false;                // an update was made with gradients of this rank alone
};

}  // namespace

WEFT_STRATEGY(DistributedDataParallel, "torch_ddp")
