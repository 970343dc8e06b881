// torch_ddp: data parallelism as PyTorch's DistributedDataParallel. Every rank holds the whole model; gradients are summed in
// buckets while backward runs.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <memory>

#include "weft/torch/gradient_buckets.hpp"
#include "weft/torch/strategy.hpp"

namespace {

class DistributedDataParallel final : public weft::Strategy {
 public:
  void configure(weft::Training& training) override {
    data_ = training.communicator(1u << WEFT_AXIS_DATA);
    parameters_ = training.parameters();
    buffers_ = training.buffers();
    for (const weft::Parameter& parameter : parameters_) {
      const weft_param_info info = parameter.info();
      const at::Tensor storage = at::empty({info.count}, weft::scalar_type(info.working_dtype));
      parameter.read(0, storage);
      parameter.bind(storage);
    }
    weft::GradientBucketOptions buckets;
    buckets.capacity_bytes = static_cast<int64_t>(options.get<double>("bucket_cap_mb") * (1 << 20));
    buckets.views = options.get<bool>("gradient_as_bucket_view");
    buckets.find_unused = options.get<bool>("find_unused_parameters");
    buckets.static_graph = options.get<bool>("static_graph");
    buckets_.build(parameters_, data_, buckets);
    broadcast_buffers_ = options.get<bool>("broadcast_buffers") && !buffers_.empty();
    check_reduction_ = options.get<bool>("check_reduction");
  }

  void before_forward(weft::Unit unit) override {
    if (unit.index() != 0 || data_.size() == 1) return;
    if (check_reduction_) check_last_reduction();
    if (broadcast_buffers_)
      for (const at::Tensor& buffer : buffers_) data_.broadcast(buffer, 0).wait();
  }

  void begin_backward(const weft::Backward& backward) override {
    buckets_.begin(backward.synchronise);
    synchronised_ += backward.synchronise;
  }
  void gradient_ready(weft::Parameter parameter) override { buckets_.ready(parameter); }
  void end_backward(const weft::Backward&) override { buckets_.end(); }

  void publish(weft::ShardSink& sink) const override { buckets_.publish(sink, parameters_); }
  void zero_gradients() override { buckets_.zero(parameters_); }

 private:
  // The sums of the last synchronised backward were all issued, on every rank alike.
  void check_last_reduction() {
    const int64_t started = synchronised_ ? static_cast<int64_t>(buckets_.started()) : 0;
    const at::Tensor highest = at::tensor({synchronised_, started, -synchronised_, -started}, at::kLong);
    data_.all_reduce(highest, WEFT_REDUCE_MAX).wait();
    const int64_t* v = highest.data_ptr<int64_t>();
    if (v[0] != -v[2] || v[1] != -v[3])
      throw weft::Error(WEFT_FAILED_PRECONDITION,
                        "torch_ddp: check_reduction: ranks disagree: between " + std::to_string(-v[2]) + " and " +
                            std::to_string(v[0]) + " synchronised backwards, between " + std::to_string(-v[3]) + " and " +
                            std::to_string(v[1]) + " sums in the last; every rank must run the same backwards");
    if (synchronised_ && started != static_cast<int64_t>(buckets_.count()))
      throw weft::Error(WEFT_FAILED_PRECONDITION,
                        "torch_ddp: check_reduction: the last backward issued " + std::to_string(started) + " of " +
                            std::to_string(buckets_.count()) + " sums; its gradients are not those of the global batch");
  }

  weft::Communicator data_;
  std::vector<weft::Parameter> parameters_;
  std::vector<at::Tensor> buffers_;
  weft::GradientBuckets buckets_;
  bool broadcast_buffers_ = false, check_reduction_ = false;
  int64_t synchronised_ = 0;  // backwards so far
};

}  // namespace

WEFT_STRATEGY(DistributedDataParallel, "torch_ddp")
