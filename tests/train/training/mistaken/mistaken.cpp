// Strategies that train without an error, to another model: copies of the model on all ranks whose gradients
// are summed at the end of backward, but for one mistake that the options choose.
#include <ATen/ATen.h>

#include <string>
#include <thread>
#include <vector>

#include "weft/torch/strategy.hpp"

using namespace weft::plugin;

namespace {

class Mistaken final : public Strategy {
 public:
  void configure(Training& made) override {
    samples_ = made.samples();
    for (const Parameter& parameter : made.parameters()) {
      const weft_param_info info = parameter.info();
      Held held{parameter, at::empty({info.count}, weft::scalar_type(info.working_dtype)), {}};
      parameter.read(0, held.values);
      parameter.bind(held.values);
      held.published = makes("publishes copies") ? held.values.clone() : held.values;
      held_.push_back(std::move(held));
    }
  }

  void begin_backward(const Pass&) override {
    if (!running_) ++step_;
    running_ = true;
  }
  void end_backward(const Pass& pass) override {
    if (!pass.synchronise) return;
    if (!makes("never reduces")) sum_gradients();
    running_ = false;
  }

  void publish(ShardSink& sink) const override {
    for (const Held& held : held_) {
      if (makes("publishes less") && samples_.rank() == 1 && &held == &held_.back()) continue;
      const at::Tensor gradient = held.parameter.gradient();
      const bool is_last = &held == &held_.back();
      const bool copies = makes("publishes fresh copies") || (makes("publishes one fresh copy") && is_last);
      sink.shard(held.parameter, 0, copies ? held.published.clone() : held.published,
                 gradient.defined() ? gradient.view(-1) : gradient, 0);
    }
  }
  void values_changed(uint32_t) override {
    if (makes("drifts") && samples_.rank() == 1) held_.front().values.mul_(1.001);
  }
  void zero_gradients() override {
    if (makes("keeps gradients")) return;
    if (makes("sums as it zeroes")) samples_.all_reduce(at::zeros({4})).wait();
    for (const Held& held : held_) held.parameter.gradient().reset();
  }

 private:
  struct Held {
    Parameter parameter;
    at::Tensor values, published;
  };

  void sum_gradients() {
    for (const Held& held : held_) {
      if (makes("forgets one") && &held == &held_.back()) continue;
      at::Tensor& gradient = held.parameter.gradient();
      if (!gradient.defined()) gradient = at::zeros_like(held.parameter.tensor().detach());
      if (makes("sums on a thread")) {
        std::thread([&] { samples_.all_reduce(gradient).wait(); }).join();
        continue;
      }
      if (makes("sums on a thread that looks at no error")) {
        std::thread([&] { try_to_sum(gradient); }).join();
        continue;
      }
      const bool differs = samples_.rank() == 1 && &held == &held_.front();
      if (differs && makes("sums less")) {
        samples_.all_reduce(gradient.view(-1).narrow(0, 0, gradient.numel() / 2)).wait();
      } else if (differs && makes("sends")) {
        samples_.broadcast(gradient, 0).wait();
      } else {
        samples_.all_reduce(gradient).wait();
      }
      if (makes("sums twice")) samples_.all_reduce(gradient).wait();
      if (makes("averages")) gradient.div_(static_cast<double>(samples_.size()));
    }
  }

  void try_to_sum(const at::Tensor& gradient) {
    try {
      samples_.all_reduce(gradient).wait();
    } catch (...) {
    }
  }

  bool makes(const char* mistake) const {
    const int64_t first = options.get<int64_t>("from_step");
    return options.get<std::string>("mistake") == mistake && step_ + (running_ ? 0 : 1) >= first;
  }

  Communicator samples_;
  std::vector<Held> held_;
  int64_t step_ = 0;      // that ran last, or runs
  bool running_ = false;  // between the first backward of a step and its sums
};

}  // namespace

WEFT_STRATEGY(Mistaken, "mistaken")
