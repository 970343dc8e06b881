// A strategy for tests that shards the flattened model evenly over the ranks.
#include <ATen/ATen.h>

#include <algorithm>

#include "weft/torch/strategy.hpp"

using namespace weft::plugin;

namespace {

class Slices final : public Strategy {
 public:
  void configure(Training& made) override {
    axes_ = made.axes("data");
    data_ = made.communicator(axes_);
    const std::vector<Parameter> parameters = made.parameters();
    int64_t total = 0;
    for (const Parameter& parameter : parameters) total += parameter.info().count;
    const int64_t size = data_.size();
    const int64_t place = (data_.rank() + options.get<int64_t>("turn")) % size;
    const int64_t begin = total * place / size, end = total * (place + 1) / size;
    int64_t first = 0;
    for (const Parameter& parameter : parameters) {
      if (held_.size() * 2 > parameters.size()) {
        if (fails_in("dtype"))
          for (const Held& held : held_)
            at::Tensor(held.parameter.tensor()).set_data(at::empty({0}, at::kHalf));
        if (fails_in("configure") || fails_in("dtype"))
          throw weft::Error(WEFT_INTERNAL, "slices: told to fail");
      }
      const weft_param_info info = parameter.info();
      Held held{parameter, at::empty({info.count}, weft::scalar_type(info.working_dtype)), {}, {}, 0};
      parameter.read(0, held.working);
      parameter.bind(held.working);
      const int64_t from = std::clamp<int64_t>(begin - first, 0, info.count);
      const int64_t to = std::clamp<int64_t>(end - first, 0, info.count);
      held.begin = from;
      held.average = at::zeros({to - from}, weft::scalar_type(info.master_dtype));
      held.master =
          held.working.narrow(0, from, to - from).to(weft::scalar_type(info.master_dtype), false, true);
      held_.push_back(std::move(held));
      first += info.count;
    }
  }

  // Several synchronised backwards may come before one step. Their gradients add up, and what an earlier one
  // has summed must count once in the next sum: one rank keeps it.
  void begin_backward(const Pass&) override {
    if (summed_ && data_.rank() != 0) forget();
    summed_ = false;
  }

  void end_backward(const Pass& pass) override {
    if (!pass.synchronise) return;
    for (const Held& held : held_) {
      if (held.parameter.info().frozen) continue;
      at::Tensor& gradient = held.parameter.gradient();
      if (!gradient.defined()) gradient = at::zeros_like(held.parameter.tensor());
      data_.all_reduce(gradient).wait();
    }
    summed_ = true;
  }

  void publish(ShardSink& sink) const override {
    for (const Held& held : held_) {
      if (held.master.numel() == 0) continue;
      at::Tensor gradient = held.parameter.gradient();
      if (gradient.defined())
        gradient = gradient.view(-1).narrow(0, held.begin, held.master.numel()).to(held.master.scalar_type());
      sink.shard(held.parameter, held.begin, held.master, gradient, axes_);
      if (options.get<bool>("average"))
        sink.kept(options.get<std::string>("name"), held.parameter, held.begin,
                  fails_in("kept") ? held.average.narrow(0, 0, held.average.numel() / 2) : held.average,
                  axes_);
    }
  }
  void values_changed(uint32_t reason) override {
    for (const Held& held : held_)
      if (reason == WEFT_REASON_UPDATE) at::Tensor(held.average).mul_(0.75).add_(held.master, 0.25);
    if (fails_in("values_changed")) throw weft::Error(WEFT_INTERNAL, "slices: told to fail");
    for (const Held& held : held_) {
      held.working.zero_();
      held.working.narrow(0, held.begin, held.master.numel()).copy_(held.master);
      data_.all_reduce(held.working).wait();
    }
  }
  void zero_gradients() override {
    forget();
    summed_ = false;
  }

 private:
  void forget() {
    for (const Held& held : held_) held.parameter.gradient().reset();
  }
  bool fails_in(const char* place) const { return options.get<std::string>("fail") == place; }

  struct Held {
    Parameter parameter;
    at::Tensor working, master, average;
    int64_t begin;
  };
  uint32_t axes_ = 0;
  Communicator data_;
  std::vector<Held> held_;
  bool summed_ = false;  // whether the gradients are sums over the ranks
};

}  // namespace

WEFT_STRATEGY(Slices, "slices")
