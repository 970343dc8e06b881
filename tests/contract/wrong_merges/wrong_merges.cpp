// Strategies that let replicas differ and break the contract of that: ranks train on their own and average
// every third update, but for one mistake that the option names. tests/contract/merging_test.cpp lists them.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "weft/kit/whole_values.hpp"
#include "weft/torch/strategy.hpp"

using namespace weft::plugin;

namespace {

class WrongMerges final : public Strategy {
 public:
  void configure(Training& training) override {
    mistake_ = options.get<std::string>("mistake");
    axis_ = training.axes("data");
    data_ = training.communicator(axis_);
    values_.build(training);
  }

  void end_backward(const Pass& pass) override {
    if (!pass.synchronise) return;
    for (const Parameter& parameter : values_.parameters()) {
      if (parameter.info().frozen) continue;
      at::Tensor& gradient = parameter.gradient();
      if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor());
      if (is("sums gradients")) data_.all_reduce(gradient).wait();
      if (is("undoes the host's factor")) gradient.div_(data_.size());
    }
  }

  MergeInterval merge_interval() override {
    if (is("never merges")) return {0, axis_};
    if (is("has another interval on rank 1")) return {data_.rank() == 1 ? 4u : 3u, axis_};
    if (is("names the tensor axis")) return {3, training.axes("tensor")};
    return {3, axis_};
  }

  void merge_replicas() override {
    const at::NoGradGuard no_grad;
    if (is("merges nothing")) return;
    for (size_t i = 0; i < values_.parameters().size(); ++i) {
      if (values_.parameters()[i].info().frozen) continue;
      if (is("forgets one") && i == 1) continue;
      const at::Tensor& value = values_.values()[i];
      if (is("takes rank 0's")) value.mul_(data_.rank() == 0 ? 1 : 0);
      if (is("loses the last rank's")) value.mul_(data_.rank() + 1 == data_.size() ? 0 : 1);
      data_.all_reduce(is("merges copies") ? value.clone() : value).wait();
      const int64_t of = is("loses the last rank's") ? data_.size() - 1 : data_.size();
      if (!is("sums") && !is("takes rank 0's")) value.div_(of);
      if (is("drifts on one rank") && data_.rank() == 1) value.add_(1e-6);
    }
  }

  void publish(ShardSink& sink) const override { values_.publish(sink); }
  void zero_gradients() override {
    for (const Parameter& parameter : values_.parameters()) parameter.gradient().reset();
  }

 private:
  bool is(const char* mistake) const { return mistake_ == mistake; }

  std::string mistake_;
  uint32_t axis_ = 0;
  Communicator data_;
  kit::WholeValues values_;
};

}  // namespace

WEFT_STRATEGY(WrongMerges, "wrong_merges")
