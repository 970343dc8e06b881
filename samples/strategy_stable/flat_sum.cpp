// Data parallelism with one sum a step: the gradients of all parameters lie one after the other in a buffer.
// The plugin is of tier stable: it uses libtorch's stable ABI alone, so this binary runs with libtorch 2.10
// and every later one. `weft train --strategy flat_sum` finds it through WEFT_PLUGIN_ADD_PATH.
#include <torch/csrc/stable/ops.h>

#include <map>
#include <vector>
#include <weft/torch/pools.hpp>
#include <weft/torch/strategy.hpp>

using namespace weft::plugin;

namespace {

class FlatSum final : public Strategy {
 public:
  void configure(Training& training) override {
    data_ = training.samples();
    std::map<uint32_t, int64_t> sizes;  // of the buffers
    for (const Parameter& parameter : training.parameters()) {
      const weft_param_info info = parameter.info();
      Held held = {parameter, info, allocate_like(info, info.master_dtype)};
      parameter.read(0, held.value);
      held.working = held.value;
      if (info.working_dtype != info.master_dtype) {
        held.working = allocate_like(info, info.working_dtype);
        copy_values(held.working, held.value);
      }
      parameter.bind(held.working);
      if (info.frozen == 0) sizes[info.working_dtype] += info.count;
      held_.push_back(held);
    }
    for (const auto& [dtype, size] : sizes)
      buffers_.emplace(dtype, allocate(WEFT_POOL_ACCELERATOR, size, weft::scalar_type(dtype)));
    clear();
    place_gradients();
  }

  // Several synchronised backwards may come before one step. Their gradients add up, and what an earlier one
  // has summed must count once in the next sum: one rank keeps it.
  void begin_backward(const Pass&) override {
    if (summed_ && data_.rank() != 0) clear();
    summed_ = false;
  }

  // The host has divided the loss by the global number of labels, so the sum over ranks is the gradient.
  void end_backward(const Pass& pass) override {
    if (!pass.synchronise) return;
    for (const auto& [dtype, buffer] : buffers_) data_.all_reduce(buffer).wait();
    summed_ = true;
  }

  void publish(ShardSink& sink) const override {
    for (const Held& held : held_) {
      const bool is_rounded = held.info.working_dtype != held.info.master_dtype;
      sink.shard(held.parameter, 0, held.value, held.gradient, 0, 0, is_rounded ? held.working : Tensor());
    }
  }

  void zero_gradients() override {
    clear();
    summed_ = false;
  }

 private:
  struct Held {
    Parameter parameter;
    weft_param_info info;
    Tensor value, working = {}, gradient = {};  // flat; there is no gradient if the parameter is frozen
  };

  static Tensor allocate_like(const weft_param_info& info, uint32_t dtype) {
    return allocate(WEFT_POOL_ACCELERATOR, info.count, weft::scalar_type(dtype));
  }

  void clear() {
    for (auto& [dtype, buffer] : buffers_) torch::stable::zero_(buffer);
  }

  // Autograd adds to a gradient that is there, in its place.
  void place_gradients() {
    std::map<uint32_t, int64_t> used;
    for (Held& held : held_) {
      if (held.info.frozen != 0) continue;
      const uint32_t dtype = held.info.working_dtype;
      held.gradient = torch::stable::narrow(buffers_.at(dtype), 0, used[dtype], held.info.count);
      held.parameter.set_gradient(shaped(held.gradient, held.info.local, held.info.ndim));
      used[dtype] += held.info.count;
    }
  }

  Communicator data_;
  std::vector<Held> held_;
  std::map<uint32_t, Tensor> buffers_;  // of gradients, by the dtype of the layers
  bool summed_ = false;                 // whether the gradients are sums over the ranks
};

}  // namespace

WEFT_STRATEGY(FlatSum, "flat_sum")
