// The smallest useful strategy: every rank holds the model, gradients are summed one by one when backward is
// done. Built with nothing but an installed Weft; `weft train --strategy late_sum` finds it through
// WEFT_PLUGIN_ADD_PATH.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <memory>

#include <weft/torch/strategy.hpp>

namespace {

class LateSum final : public weft::Strategy {
 public:
  void configure(weft::Training& training) override {
    data_ = training.communicator(1u << WEFT_AXIS_DATA);
    parameters_ = training.parameters();
    for (const weft::Parameter& parameter : parameters_) {
      const weft_param_info info = parameter.info();
      const at::Tensor storage = at::empty({info.count}, weft::scalar_type(info.working_dtype));
      parameter.read(0, storage);
      parameter.bind(storage);
    }
  }

  // The host has divided the loss by the global count of labels, so the sum over ranks is the gradient.
  void end_backward(const weft::Backward& backward) override {
    if (!backward.synchronise) return;
    for (const weft::Parameter& parameter : parameters_) {
      at::Tensor& gradient = parameter.gradient();
      if (parameter.info().frozen) continue;
      if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor());
      gradient = gradient.contiguous();
      data_.all_reduce(gradient).wait();
    }
    if (options.get<bool>("chatty"))
      weft::host.host->log(WEFT_LOG_INFO, weft::str("late_sum"), weft::str("summed"));
  }

  void publish(weft::ShardSink& sink) const override {
    for (const weft::Parameter& parameter : parameters_)
      sink.shard(parameter, 0, parameter.tensor().detach().view(-1),
                 parameter.gradient().defined() ? parameter.gradient().view(-1) : at::Tensor(), 0);
  }
  void zero_gradients() override {
    for (const weft::Parameter& parameter : parameters_) parameter.gradient().reset();
  }

 private:
  weft::Communicator data_;
  std::vector<weft::Parameter> parameters_;
};

}  // namespace

WEFT_STRATEGY(LateSum, "late_sum")
