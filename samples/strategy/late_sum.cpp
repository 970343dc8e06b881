// The smallest useful strategy: replicates the model on every rank and all-reduces one gradient after the
// other at the end of backward. It builds against an installed Weft. `weft train --strategy late_sum` finds
// it through WEFT_PLUGIN_ADD_PATH.
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>

#include <weft/kit/whole_values.hpp>
#include <weft/torch/strategy.hpp>

using namespace weft::plugin;

namespace {

class LateSum final : public Strategy {
 public:
  void configure(Training& training) override {
    data_ = training.samples();
    values_.build(training);
  }

  // Several synchronised backwards may come before one step. Their gradients add up, and what an earlier one
  // has summed must count once in the next sum: one rank keeps it.
  void begin_backward(const Pass&) override {
    if (summed_ && data_.rank() != 0) forget();
    summed_ = false;
  }

  // The host has divided the loss by the global number of labels, so the sum over ranks is the gradient.
  void end_backward(const Pass& pass) override {
    if (!pass.synchronise) return;
    for (const Parameter& parameter : values_.parameters()) {
      at::Tensor& gradient = parameter.gradient();
      if (parameter.info().frozen) continue;
      if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor());
      gradient = gradient.contiguous();
      data_.all_reduce(gradient).wait();
    }
    summed_ = true;
    if (options.get<bool>("chatty")) host.host->log(WEFT_LOG_INFO, str("late_sum"), str("summed"));
  }

  void publish(ShardSink& sink) const override { values_.publish(sink); }
  void zero_gradients() override {
    forget();
    summed_ = false;
  }

 private:
  void forget() {
    for (const Parameter& parameter : values_.parameters()) parameter.gradient().reset();
  }

  Communicator data_;
  kit::WholeValues values_;  // from the kit: every rank holds all parameters
  bool summed_ = false;      // whether the gradients are sums over the ranks
};

}  // namespace

WEFT_STRATEGY(LateSum, "late_sum")
