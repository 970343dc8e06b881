// Strategies that break their contract: copies of the model on all ranks whose gradients are summed at the
// end of backward, but for one mistake that the option names. tests/contract/strategy_test.cpp lists them.
#include <ATen/ATen.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "weft/torch/strategy.hpp"

using namespace weft::plugin;

namespace {

class Wrong final : public Strategy {
 public:
  void configure(Training& made) override {
    mistake_ = options.get<std::string>("mistake");
    samples_ = made.samples();
    if (is("throws in configure") && on_one_rank()) throw std::runtime_error("no memory");
    for (const Parameter& parameter : made.parameters()) {
      const weft_param_info info = parameter.info();
      Held held{parameter, info.frozen != 0, at::empty({info.count}, weft::scalar_type(info.working_dtype)),
                at::empty({info.count}, weft::scalar_type(info.master_dtype))};
      if (held.values.scalar_type() == held.masters.scalar_type()) held.masters = held.values;
      parameter.read(0, held.masters);
      held.values.copy_(held.masters);
      if (is("begins with other values") && !held.frozen)
        held.masters.mul_(0.9), held.values.copy_(held.masters);
      parameter.bind(held.values);
      held.copy = held.masters.clone();
      held_.push_back(std::move(held));
    }
  }

  void begin_backward(const Pass& pass) override {
    if (!running_) ++step_;
    running_ = true;
    const bool keeps = is("counts earlier sums again") || is("reduces in every backward");
    if (summed_ && !keeps && samples_.rank() != 0) forget();
    summed_ = false;
    if (is("loses earlier micro-batches") && pass.micro > 0) forget();
  }

  void end_backward(const Pass& pass) override {
    if (is("loses the first micro-batch") && pass.micro == 0 && pass.num_micros > 1) forget();
    if (is("counts the last micro-batch twice") && pass.num_micros > 1 && pass.synchronise) scale_all(2);
    break_down();
    if (!pass.synchronise && !is("reduces in every backward")) return;
    if (!is("never reduces") && !(is("stops reducing at step 4") && step_ >= 4)) sum_gradients();
    spoil_gradients();
    summed_ = true;
    running_ = false;
  }

  void publish(ShardSink& sink) const override {
    ++published_;
    if (is("throws in publish") && step_ >= 2 && on_one_rank())
      throw std::runtime_error("nothing to publish");
    const bool backwards = is("publishes in another order") && published_ > 1;
    for (size_t i = 0; i < held_.size(); ++i) publish(sink, held_[backwards ? held_.size() - 1 - i : i]);
  }

  void values_changed(uint32_t) override {
    const bool stale =
        is("does not refresh the layers") || (is("refreshes the layers until step 3") && step_ >= 3);
    for (const Held& held : held_) {
      if (held.masters.is_same(held.values) || stale) continue;
      held.values.copy_(held.masters);
    }
    if (is("drifts on one rank") && on_one_rank()) held_.front().values.mul_(1.0001);
  }

  void zero_gradients() override {
    if (is("throws in zero_gradients") && on_one_rank()) throw std::runtime_error("nothing to zero");
    if (is("keeps gradients") || (is("keeps gradients on one rank") && on_one_rank())) return;
    forget();
    summed_ = false;
  }

 private:
  struct Held {
    Parameter parameter;
    bool frozen;
    at::Tensor values, masters;  // one tensor where the dtypes are equal
    at::Tensor copy = {};        // of the masters, as they were at first
  };

  bool is(const char* mistake) const { return mistake_ == mistake; }
  bool on_one_rank() const { return samples_.rank() == 1; }
  // The parameter in which mistakes of one tensor are made, a bias or a weight in the middle of the model.
  bool is_chosen(const Held& held) const { return &held == &held_[held_.size() / 2]; }

  void forget() {
    for (const Held& held : held_)
      if (!(is("keeps one gradient") && is_chosen(held))) held.parameter.gradient().reset();
  }
  void scale_all(double factor) {
    for (const Held& held : held_)
      if (held.parameter.gradient().defined()) held.parameter.gradient().mul_(factor);
  }

  // Mistakes that end the process, or leave the other ranks alone.
  void break_down() {
    if (is("throws in end_backward") && on_one_rank()) throw std::runtime_error("no connection");
    if (is("throws in end_backward everywhere") && step_ == 3) throw std::runtime_error("no connection");
    if (is("exits in step 2") && step_ == 2 && on_one_rank()) std::exit(0);
    if (is("crashes in step 2") && step_ == 2 && on_one_rank()) std::raise(SIGSEGV);
    if (is("loops in step 2") && step_ == 2 && on_one_rank())
      for (;;) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  void sum_gradients() {
    std::vector<const Held*> order;
    for (const Held& held : held_)
      if (!held.frozen) order.push_back(&held);
    if (is("sums in another order on one rank") && on_one_rank()) std::swap(order.front(), order.back());
    if (is("leaves out a collective on one rank") && on_one_rank()) order.pop_back();
    for (const Held* held : order) {
      at::Tensor& gradient = held->parameter.gradient();
      if (!gradient.defined()) gradient = at::zeros_like(held->parameter.tensor().detach());
      if (is("forgets one") && is_chosen(*held)) continue;
      if (is("sums a part of one") && is_chosen(*held)) {
        samples_.all_reduce(gradient.view(-1).narrow(0, 0, gradient.numel() / 2)).wait();
        continue;
      }
      samples_.all_reduce(gradient, is("takes the maximum") ? WEFT_REDUCE_MAX : WEFT_REDUCE_SUM).wait();
      if (is("sums twice")) samples_.all_reduce(gradient).wait();
      if (is("averages") || (is("averages one") && is_chosen(*held)))
        gradient.div_(static_cast<double>(samples_.size()));
    }
  }

  void spoil_gradients() {
    if (is("scales from step 4 on") && step_ >= 4) scale_all(1.01);
    for (const Held& held : held_) {
      at::Tensor& gradient = held.parameter.gradient();
      if (!gradient.defined() || !is_chosen(held)) continue;
      if (is("scales one from step 4 on") && step_ >= 4) gradient.mul_(1.01);
      if (is("rounds one to single precision"))
        gradient.copy_(gradient.to(at::kFloat).to(gradient.scalar_type()));
    }
    if (is("adds noise on one rank") && on_one_rank()) scale_all(1.000001);
  }

  at::Tensor value_of(const Held& held) const {
    const bool chosen = is_chosen(held);
    if (is("publishes fresh copies") || (is("publishes a fresh copy of one") && chosen) ||
        (is("publishes fresh copies on one rank") && on_one_rank()) ||
        (is("publishes fresh copies from step 4 on") && step_ >= 4))
      return held.masters.clone();
    if (is("publishes fixed copies") || (is("publishes a fixed copy of one") && chosen)) return held.copy;
    return held.masters;
  }

  at::Tensor gradient_of(const Held& held) const {
    at::Tensor gradient = held.parameter.gradient();
    if (!gradient.defined() || held.frozen || (is("publishes no gradient of one") && is_chosen(held)))
      return {};
    gradient = gradient.reshape(-1);
    return is("publishes copies of gradients") ? gradient.clone() : gradient;
  }

  void publish(const ShardSink& sink, const Held& held) const {
    const bool chosen = is_chosen(held);
    if (is("leaves one out") && chosen) return;
    at::Tensor value = value_of(held), gradient = gradient_of(held);
    kept_.push_back(value), kept_.push_back(gradient);
    const bool half = is("publishes half") || (is("publishes half of one") && chosen);
    const int64_t count = half ? (value.numel() + 1) / 2 : value.numel();
    const auto part = [&](const at::Tensor& all) { return all.defined() ? all.narrow(0, 0, count) : all; };
    sink.shard(held.parameter, 0, part(value), part(gradient), 0);
    if (is("publishes all twice") || (is("publishes one twice") && chosen))
      sink.shard(held.parameter, 0, value, gradient, 0);
  }

  std::string mistake_;
  Communicator samples_;
  std::vector<Held> held_;
  mutable std::vector<at::Tensor> kept_;  // what was published
  mutable int64_t published_ = 0;
  int64_t step_ = 0;      // that ran last, or runs
  bool running_ = false;  // between the first backward of a step and its sums
  bool summed_ = false;   // whether the gradients are sums over the ranks
};

}  // namespace

WEFT_STRATEGY(Wrong, "wrong")
