#include "weft/optim/scheduler.hpp"

#include "base/text.hpp"
#include "weft/optim/optimizer.hpp"

namespace weft::optim {

struct Scheduler::Shared {
  Optimizer optimizer;
  std::shared_ptr<Schedule> schedule;
  int64_t step = 0;

  void apply() {
    const std::optional<double> momentum = schedule->momentum(step);
    for (Group& group : optimizer.groups()) {
      group.options["lr"] = schedule->rate(group.initial_lr, step);
      if (momentum) group.options[group.options.contains("beta1") ? "beta1" : "momentum"] = *momentum;
    }
  }
};

Scheduler::Scheduler(Optimizer& optimizer, std::shared_ptr<Schedule> schedule) {
  if (!optimizer) fail(WEFT_INVALID_ARGUMENT, "scheduler: no optimizer was given");
  if (!schedule) fail(WEFT_INVALID_ARGUMENT, "scheduler: no schedule was given");
  const Hyper options = optimizer.rule().defaults();
  if (schedule->momentum(0) && !options.contains("beta1") && !options.contains("momentum"))
    fail(WEFT_INVALID_ARGUMENT,
         "scheduler: {} moves the momentum, but {} has none; switch cycle_momentum off", schedule->identity(),
         optimizer.rule().name());
  state_ = std::make_shared<Shared>(Shared{optimizer, std::move(schedule)});
  state_->apply();
}

Scheduler::Shared& Scheduler::shared() const {
  if (!state_) fail(WEFT_FAILED_PRECONDITION, "scheduler: it was made without an optimizer");
  return *state_;
}

void Scheduler::step() {
  if (shared().schedule->follows_metric())
    fail(WEFT_FAILED_PRECONDITION, "scheduler: {} follows a metric; call step(metric)",
         shared().schedule->identity());
  seek(shared().step + 1);
}

void Scheduler::step(double metric) {
  if (!shared().schedule->follows_metric())
    fail(WEFT_FAILED_PRECONDITION, "scheduler: {} follows no metric; call step()",
         shared().schedule->identity());
  shared().schedule->observe(shared().step, metric);
  seek(shared().step + 1);
}

int64_t Scheduler::last_step() const {
  return shared().step;
}

const Schedule& Scheduler::schedule() const {
  return *shared().schedule;
}

void Scheduler::seek(int64_t step) {
  if (step < 0) fail(WEFT_OUT_OF_RANGE, "scheduler: step is {}, must be at least 0", step);
  shared().step = step;
  shared().apply();
}

std::string Scheduler::state() const {
  return shared().schedule->state();
}

void Scheduler::restore(const std::string& state) {
  shared().schedule->restore(state);
  shared().apply();
}

}  // namespace weft::optim
