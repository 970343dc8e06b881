// Schedules and the formulas behind them, transformers' get_*_schedule_with_warmup.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/text.hpp"
#include "weft/optim/optimizer.hpp"
#include "weft/optim/scheduler.hpp"

namespace weft::optim {

namespace {

const std::vector<std::string> kNames = {"constant", "linear_warmup", "cosine_warmup"};

double fraction(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole));
}

// Rises linearly from 0 to 1, then what the kind says of the part that is left.
class Warmup : public Schedule {
 public:
  Warmup(std::string_view name, const ScheduleOptions& options) : name_(name), options_(options) {}
  std::string identity() const final {
    return fmt::format("{} warmup_steps={} minimum_factor={}", name_, options_.warmup_steps,
                       options_.minimum_factor);
  }
  double factor(int64_t step) const final {
    if (step < options_.warmup_steps) return fraction(step, options_.warmup_steps);
    const double progress =
        fraction(step - options_.warmup_steps, options_.total_steps - options_.warmup_steps);
    return after(std::min(progress, 1.0));
  }

 protected:
  virtual double after(double progress) const = 0;
  std::string name_;
  ScheduleOptions options_;
};

class Constant final : public Warmup {
  using Warmup::Warmup;
  double after(double) const override { return 1; }
};

class Linear final : public Warmup {
  using Warmup::Warmup;
  double after(double progress) const override { return 1 - progress; }
};

class Cosine final : public Warmup {
  using Warmup::Warmup;
  double after(double progress) const override {
    const double cosine = std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
    return options_.minimum_factor + (1 - options_.minimum_factor) * cosine;
  }
};

void check(std::string_view name, const ScheduleOptions& options) {
  if (options.warmup_steps < 0) {
    fail(WEFT_INVALID_ARGUMENT, "schedule {}: warmup_steps is {}, must be at least 0", name,
         options.warmup_steps);
  }
  if (name != "cosine_warmup" && options.minimum_factor != 0) {
    fail(WEFT_INVALID_ARGUMENT, "schedule {}: minimum_factor is {}, but only cosine_warmup has one", name,
         options.minimum_factor);
  }
  if (name == "constant") return;
  if (options.total_steps < 1) {
    fail(WEFT_INVALID_ARGUMENT, "schedule {}: total_steps is {}; it needs to know how many steps the run has",
         name, options.total_steps);
  }
  if (options.warmup_steps > options.total_steps) {
    fail(WEFT_INVALID_ARGUMENT, "schedule {}: warmup_steps is {}, must be at most the {} steps of the run",
         name, options.warmup_steps, options.total_steps);
  }
  if (!(options.minimum_factor >= 0 && options.minimum_factor <= 1)) {
    fail(WEFT_INVALID_ARGUMENT, "schedule {}: minimum_factor is {}, must be 0 to 1", name,
         options.minimum_factor);
  }
}

}  // namespace

std::shared_ptr<Schedule> schedule(std::string_view name, const ScheduleOptions& options) {
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
    fail(WEFT_NOT_FOUND, "no learning-rate schedule is called \"{}\"{}; there are: {}", name,
         did_you_mean(name, kNames), fmt::join(kNames, ", "));
  }
  check(name, options);
  if (name == "linear_warmup") return std::make_shared<Linear>(name, options);
  if (name == "cosine_warmup") return std::make_shared<Cosine>(name, options);
  return std::make_shared<Constant>(name, options);
}

struct Scheduler::Shared {
  Optimizer optimizer;
  std::shared_ptr<Schedule> schedule;
  int64_t step = 0;

  void apply() {
    const double factor = schedule->factor(step);
    for (Group& group : optimizer.groups()) group.options["lr"] = group.initial_lr * factor;
  }
};

Scheduler::Scheduler(Optimizer& optimizer, std::shared_ptr<Schedule> schedule) {
  if (!optimizer) fail(WEFT_INVALID_ARGUMENT, "scheduler: no optimizer was given");
  if (!schedule) fail(WEFT_INVALID_ARGUMENT, "scheduler: no schedule was given");
  state_ = std::make_shared<Shared>(Shared{optimizer, std::move(schedule)});
  state_->apply();
}

Scheduler::Shared& Scheduler::shared() const {
  if (!state_) fail(WEFT_FAILED_PRECONDITION, "scheduler: it was made without an optimizer");
  return *state_;
}

void Scheduler::step() {
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

}  // namespace weft::optim
