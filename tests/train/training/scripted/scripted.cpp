// A strategy as a third party would write it, with the SDK alone. It has schedules of its own and frees
// storage between hooks.
#include <ATen/ATen.h>

#include <memory>

#include "weft/torch/strategy.hpp"

using namespace weft::plugin;

namespace {

class Scripted final : public Strategy {
 public:
  void describe_mesh(const Mesh& mesh) override {
    uint32_t left = mesh.ranks_left();
    const auto open = [&](const char* axis, const char* option) {
      mesh.set_size(axis, static_cast<uint32_t>(options.get<int64_t>(option)));
      return mesh.size(axis);
    };
    left /= open("stages", "stages");
    left /= open("replica", "replicas");
    left /= open("experts", "experts");
    open("tensor.row", "rows");
    open("tensor.column", "columns");
    mesh.set_size("data", left);
  }

  void configure(Training& made) override {
    stages_ = made.communicator(made.axes("stages"));
    units_ = made.units();
    release_ = options.get<bool>("release");
    for (const Parameter& parameter : made.parameters()) {
      const weft_param_info info = parameter.info();
      Held held{parameter, at::empty({info.count}, weft::scalar_type(info.working_dtype)), {}, {}};
      // Each stage holds every parameter, so it also needs the gradients of units that ran on other stages.
      held.summing = made.communicator(stages_.size() > 1 ? made.axes("everyone") : info.gradient_axes);
      parameter.read(0, held.master);
      held.working = held.master.clone();
      parameter.bind(held.working);
      if (release_) resize_storage(held.working, 0);
      held_.push_back(std::move(held));
    }
  }

  void before_forward(Unit unit, const Pass&) override { fill(unit); }
  void after_forward(Unit unit, const Pass&) override { drop(unit); }
  void before_backward(Unit unit, const Pass&) override { fill(unit); }
  void after_backward(Unit unit, const Pass&) override { drop(unit); }

  void end_backward(const Pass& pass) override {
    if (pass.synchronise && stages_.size() == 1) sum_gradients();
  }

  void run_step(Step& step) override {
    const std::string schedule = options.get<std::string>("schedule");
    if (schedule == "reverse")
      for (uint32_t micro = step.micro_count(); micro-- > 0;) whole(step, micro);
    if (schedule == "all_forward") all_forward(step);
    if (schedule == "two_stages")
      for (uint32_t micro = 0; micro < step.micro_count(); ++micro) two_stages(step, micro);
    if (schedule == "two_ranks") two_ranks(step);
    if (schedule == "wrong") wrong(step);
  }

  void publish(ShardSink& sink) const override {
    for (const Held& held : held_) {
      const at::Tensor gradient = held.parameter.gradient();
      sink.shard(held.parameter, 0, held.master, gradient.defined() ? gradient.view(-1) : gradient, 0);
    }
  }
  void values_changed(uint32_t) override {
    if (release_) return;
    for (const Held& held : held_) held.working.copy_(held.master);
  }
  void zero_gradients() override {
    for (const Held& held : held_) held.parameter.gradient().reset();
  }

 private:
  struct Held {
    Parameter parameter;
    at::Tensor master, working;
    Communicator summing;
  };

  void sum_gradients() {
    for (const Held& held : held_) {
      if (held.parameter.info().frozen) continue;
      at::Tensor& gradient = held.parameter.gradient();
      if (!gradient.defined())
        gradient = at::zeros(held.parameter.tensor().sizes(), held.master.scalar_type());
      held.summing.all_reduce(gradient).wait();
    }
  }

  void fill(Unit unit) {
    if (!release_) return;
    for (const Held& held : held_) {
      if (!held.parameter.used_by(unit)) continue;
      resize_storage(held.working, held.master.numel());
      held.working.copy_(held.master);
    }
  }
  void drop(Unit unit) {
    if (!release_) return;
    for (const Held& held : held_)
      if (held.parameter.used_by(unit)) resize_storage(held.working, 0);
  }

  void whole(Step& step, uint32_t micro) {
    State state = step.input(micro);
    for (const Unit unit : units_) step.forward(micro, unit, state);
    step.finish(micro, state);
    if (step.training()) step.backward(micro);
  }

  void all_forward(Step& step) {
    std::vector<State> states;
    for (uint32_t micro = 0; micro < step.micro_count(); ++micro) {
      states.push_back(step.input(micro));
      for (const Unit unit : units_) step.forward(micro, unit, states.back());
      step.finish(micro, states.back());
    }
    for (uint32_t micro = 0; step.training() && micro < step.micro_count(); ++micro) step.backward(micro);
  }

  // Runs both stages of a pipeline on one rank. The second stage sees only the fields of boundary().
  void two_stages(Step& step, uint32_t micro) {
    const size_t half = units_.size() / 2;
    State first = step.input(micro);
    for (size_t u = 0; u < half; ++u) step.forward(micro, units_[u], first);
    State second = step.boundary(micro, units_[half]);
    for (uint32_t f = 0; f < second.size(); ++f) {
      const at::Tensor& received = second.tensor(f);
      at::NoGradGuard no_grad;
      received.copy_(field(first, second.name(f)));
    }
    std::vector<std::pair<std::string, at::Tensor>> entered;
    for (uint32_t f = 0; f < second.size(); ++f)
      if (second.tensor(f).requires_grad()) entered.emplace_back(second.name(f), second.tensor(f));
    for (size_t u = half; u < units_.size(); ++u) step.forward(micro, units_[u], second);
    step.finish(micro, second);
    if (!step.training()) return;
    step.backward(micro);
    State gradients;
    for (const auto& [name, tensor] : entered) gradients.set(name, tensor.grad());
    step.backward(micro, first, gradients);
  }

  // Runs the two stages on two ranks. `last_stage` says which of them runs the second half of the units.
  void two_ranks(Step& step) {
    const auto last = static_cast<uint32_t>(options.get<int64_t>("last_stage"));
    const size_t half = units_.size() / 2;
    const bool runs_last = stages_.rank() == last;
    for (uint32_t micro = 0; micro < step.micro_count(); ++micro)
      runs_last ? second_half(step, micro, half) : first_half(step, micro, half);
    if (step.training()) sum_gradients();
  }
  void first_half(Step& step, uint32_t micro, size_t half) {
    const auto other = static_cast<uint32_t>(1 - stages_.rank());
    State state = step.input(micro);
    for (size_t u = 0; u < half; ++u) step.forward(micro, units_[u], state);
    const State shapes = step.boundary(micro, units_[half]);
    for (uint32_t f = 0; f < shapes.size(); ++f)
      stages_.send(field(state, shapes.name(f)).contiguous(), other, 0).wait();
    if (options.get<std::string>("mistake") == "both finish") step.finish(micro, state);
    if (!step.training()) return;
    State gradients;
    for (uint32_t f = 0; f < shapes.size(); ++f) {
      if (!shapes.tensor(f).requires_grad()) continue;
      const at::Tensor gradient = at::empty_like(shapes.tensor(f).detach());
      stages_.recv(gradient, other, 0).wait();
      gradients.set(shapes.name(f), gradient);
    }
    step.backward(micro, state, gradients);
  }
  void second_half(Step& step, uint32_t micro, size_t half) {
    const auto other = static_cast<uint32_t>(1 - stages_.rank());
    State state = step.boundary(micro, units_[half]);
    std::vector<at::Tensor> entered;
    for (uint32_t f = 0; f < state.size(); ++f) {
      stages_.recv(state.tensor(f).detach(), other, 0).wait();
      if (state.tensor(f).requires_grad()) entered.push_back(state.tensor(f));
    }
    for (size_t u = half; u < units_.size(); ++u) step.forward(micro, units_[u], state);
    step.finish(micro, state);
    if (!step.training()) return;
    step.backward(micro);
    for (const at::Tensor& tensor : entered) stages_.send(tensor.grad().contiguous(), other, 0).wait();
  }

  static at::Tensor field(const State& state, const std::string& name) {
    for (uint32_t f = 0; f < state.size(); ++f)
      if (state.name(f) == name) return state.tensor(f).detach();
    throw weft::Error(WEFT_NOT_FOUND, "the first half gave no " + name);
  }

  void wrong(Step& step) {
    const std::string mistake = options.get<std::string>("mistake");
    if (mistake == "micro-batch") step.input(step.micro_count());
    State state = step.input(0);
    if (mistake == "unit") step.forward(0, Unit(), state);
    if (mistake == "backward first") step.backward(0);
    for (const Unit unit : units_) step.forward(0, unit, state);
    if (mistake == "no finish") step.backward(0);
    step.finish(0, state);
    if (mistake == "finish twice") step.finish(0, state);
    step.backward(0);
    if (mistake == "backward twice") step.backward(0);
  }

  Communicator stages_;
  std::vector<Unit> units_;
  std::vector<Held> held_;
  bool release_ = false;
};

}  // namespace

WEFT_STRATEGY(Scripted, "scripted")
