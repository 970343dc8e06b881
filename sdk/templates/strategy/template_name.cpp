// Data parallelism: every rank holds the whole model and computes the gradients of its own samples. When
// backward is done, each gradient is summed over the ranks.
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros_like.h>

#include <deque>

#include <weft/kit/whole_values.hpp>
#include <weft/torch/strategy.hpp>

using namespace weft::plugin;

namespace {

class TemplateName final : public Strategy {
 public:
  // Gives each parameter memory, and the values of the checkpoint or of the seed.
  void configure(Training& training) override {
    at_once_ = static_cast<size_t>(options.get<int64_t>("at_once"));
    values_.build(training);
    for (const Parameter& parameter : values_.parameters())
      ranks_.push_back(training.communicator(parameter.info().gradient_axes));
  }

  // Several synchronised backwards may come before one step, and their gradients add up. What an earlier one
  // has summed must count once in the next sum: one rank keeps it.
  void begin_backward(const Pass&) override {
    for (size_t i = 0; summed_ && i < ranks_.size(); ++i)
      if (ranks_[i].rank() != 0) gradient(i).reset();
    summed_ = false;
  }

  // The host has divided the loss by the labels of all ranks, so the gradient is the sum over the ranks, not
  // the mean. All ranks start the same sums in the same order, also of what only some of them have used.
  void end_backward(const Pass& pass) override {
    if (!pass.synchronise) return;
    std::deque<Work> started;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const Parameter& parameter = values_.parameters()[i];
      if (parameter.info().frozen) continue;
      gradient(i) = gradient(i).defined() ? gradient(i).contiguous() : at::zeros_like(parameter.tensor());
      if (started.size() == at_once_) {
        started.front().wait();
        started.pop_front();
      }
      started.push_back(ranks_[i].all_reduce(gradient(i)));
    }
    for (Work& work : started) work.wait();
    summed_ = true;
  }

  // Tells the host which values and gradients this rank holds: all of them.
  void publish(ShardSink& sink) const override { values_.publish(sink); }

  void zero_gradients() override {
    for (size_t i = 0; i < ranks_.size(); ++i) gradient(i).reset();
    summed_ = false;
  }

 private:
  at::Tensor& gradient(size_t i) const { return values_.parameters()[i].gradient(); }

  size_t at_once_ = 1;
  kit::WholeValues values_;          // of the kit: every rank holds all parameters
  std::vector<Communicator> ranks_;  // that sum the gradient, by parameter
  bool summed_ = false;              // whether the gradients are sums over the ranks
};

}  // namespace

WEFT_STRATEGY(TemplateName, "template_name")
