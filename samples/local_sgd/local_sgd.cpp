// Local SGD: each rank trains its own copy of the model, and only every `interval` updates do the ranks
// average what they have learnt, so that a slow network is used rarely. With outer_lr and outer_momentum an
// outer optimizer goes from the last average to the new one: DiLoCo (Douillard et al. 2023,
// arXiv:2311.08105) has 0.7 and 0.9.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <weft/kit/whole_values.hpp>
#include <weft/torch/strategy.hpp>

using namespace weft::plugin;

namespace {

class LocalSgd final : public Strategy {
 public:
  void configure(Training& training) override {
    data_axis_ = training.axes("data");
    data_ = training.communicator(data_axis_);
    outer_lr_ = options.get<double>("outer_lr");
    outer_momentum_ = options.get<double>("outer_momentum");
    values_.build(training);
    for (size_t i = 0; i < values_.parameters().size(); ++i) {
      if (values_.parameters()[i].info().frozen) continue;
      const at::Tensor& value = values_.values()[i];
      outer_.push_back({i, value.clone(), outer_momentum_ > 0 ? at::zeros_like(value) : at::Tensor()});
    }
  }

  // The gradients that backward leaves are those of this rank's samples, and stay as they are. A parameter
  // that this rank's samples did not use has none: others may have used it.
  void end_backward(const Pass& pass) override {
    if (!pass.synchronise) return;
    for (const Outer& outer : outer_) {
      at::Tensor& gradient = values_.parameters()[outer.index].gradient();
      if (!gradient.defined()) gradient = at::zeros_like(values_.parameters()[outer.index].tensor());
      gradient = gradient.contiguous();
    }
  }

  MergeInterval merge_interval() override {
    return {static_cast<uint64_t>(options.get<int64_t>("interval")), data_axis_};
  }

  void merge_replicas() override {
    const at::NoGradGuard no_grad;
    std::vector<Work> sums;
    for (const Outer& outer : outer_) sums.push_back(data_.all_reduce(values_.values()[outer.index]));
    for (size_t i = 0; i < outer_.size(); ++i) {
      sums[i].wait();
      const Outer& outer = outer_[i];
      const at::Tensor& value = values_.values()[outer.index];
      at::Tensor step = outer.last - value / data_.size();
      if (outer_momentum_ > 0) {  // Nesterov's
        outer.momentum.mul_(outer_momentum_).add_(step);
        step.add_(outer.momentum, outer_momentum_);
      }
      outer.last.sub_(step, outer_lr_);
      value.copy_(outer.last);
    }
  }

  void values_changed(uint32_t reason) override {
    if (reason != WEFT_REASON_LOAD && reason != WEFT_REASON_TAKE_OVER) return;
    for (const Outer& outer : outer_) outer.last.copy_(values_.values()[outer.index]);
  }

  void publish(ShardSink& sink) const override {
    values_.publish(sink);
    if (!(outer_momentum_ > 0)) return;
    for (const Outer& outer : outer_)
      sink.kept("outer_momentum", values_.parameters()[outer.index], 0, outer.momentum, 0);
  }

  void zero_gradients() override {
    for (const Parameter& parameter : values_.parameters()) parameter.gradient().reset();
  }

 private:
  // A trained parameter: its values after the last merge, and the momentum of the merges.
  struct Outer {
    size_t index;
    at::Tensor last, momentum;
  };

  uint32_t data_axis_ = 0;
  Communicator data_;
  double outer_lr_ = 1, outer_momentum_ = 0;
  kit::WholeValues values_;  // from the kit: every rank holds all parameters
  std::vector<Outer> outer_;
};

}  // namespace

WEFT_STRATEGY(LocalSgd, "local_sgd")
