// Learning-rate schedules. Steps are counted as in PyTorch: step 0 is the first, and its rate holds from the
// beginning.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::optim {

class Optimizer;

// Learning rates by step.
class Schedule {
 public:
  virtual ~Schedule() = default;
  // Returns the rate at a step, of a group whose initial rate is `initial`.
  virtual double rate(double initial, int64_t step) const = 0;
  double factor(int64_t step) const { return rate(1, step); }
  // Returns the momentum at a step (beta1 of rules that have one), if the schedule changes it.
  virtual std::optional<double> momentum(int64_t step) const { return std::nullopt; }
  // Returns name and options, which a checkpoint compares, without the length of the run, which may change.
  virtual std::string identity() const { return ""; }

  // A schedule that follows a metric observes that of every step, which is equal on all ranks. state()
  // returns what it has derived, as JSON; restore() throws INVALID_ARGUMENT for the state of another
  // schedule.
  virtual bool follows_metric() const { return false; }
  virtual void observe(int64_t step, double metric) {}
  virtual std::string state() const { return ""; }
  virtual void restore(const std::string& state) {}
};

// The options of a schedule.
struct ScheduleOptions {
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;    // needed by schedules with an end
  double minimum_factor = 0;  // of cosine_warmup
  std::string more = "{}";    // the other options, as a JSON object: {"milestones": [30, 60], "gamma": 0.2}
};

// Makes a schedule by name. Names, options and defaults are Colossal-AI's, with its classes in snake case:
//
//   linear                    falls to 0 at total_steps
//   cosine_annealing          falls as half a cosine to `eta_min`
//   flat_annealing            the same, after a share `pct_start` = 0.72 of the steps
//   multi_step, step          times `gamma` = 0.1 at each of `milestones`, or every `step_size` steps
//   exponential               times `gamma` = 1 each step
//   polynomial                falls to `end_lr` = 1e-4 with `power` = 1
//   plateau                   times `factor` = 0.1 when the metric has not improved for `patience` = 10
//   steps;
//                             `mode threshold threshold_mode cooldown min_lr eps` as PyTorch's
//   one_cycle                 `pct_start anneal_strategy cycle_momentum base_momentum max_momentum div_factor
//                             final_div_factor three_phase` as PyTorch's; the optimizer's rate is the largest
//
// The forms with _warmup, except linear_warmup, first rise over warmup_steps by (k + 1) / warmup_steps; what
// follows counts from there. As in transformers, these rise by k / warmup_steps, from 0:
//   constant, linear_warmup, cosine_warmup (to minimum_factor)
//
// After total_steps the rate stays. Throws NOT_FOUND with the nearest name, and INVALID_ARGUMENT for options
// that the schedule does not have.
std::shared_ptr<Schedule> schedule(std::string_view name, const ScheduleOptions& options);
std::vector<std::string> schedule_names();

// Applies a schedule to an optimizer: sets the rate of each group, at once and at each step(), which follows
// the optimizer's step. A copy is the same scheduler.
class Scheduler {
 public:
  Scheduler() = default;
  // Throws INVALID_ARGUMENT if the schedule moves the momentum of a rule that has none.
  Scheduler(Optimizer& optimizer, std::shared_ptr<Schedule> schedule);
  explicit operator bool() const { return state_ != nullptr; }
  // Move to the next step. The second form is for schedules that follow a metric; Job::train_step passes the
  // loss. Each throws FAILED_PRECONDITION for the other kind of schedule.
  void step();
  void step(double metric);
  int64_t last_step() const;
  const Schedule& schedule() const;
  void seek(int64_t step);
  // As Schedule::state() and restore(); the rates follow.
  std::string state() const;
  void restore(const std::string& state);

 private:
  struct Shared;
  Shared& shared() const;
  std::shared_ptr<Shared> state_;
};

}  // namespace weft::optim
