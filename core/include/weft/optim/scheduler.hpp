// Learning-rate schedules: the factor of an optimizer's rates by step. Counting as PyTorch's: the rate of
// step k (from 0) is factor(k) times the initial one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weft::optim {

class Optimizer;

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double factor(int64_t step) const = 0;
  // For checkpoints: what it is with its options, but for the length of the run, which may change on the way.
  virtual std::string identity() const { return ""; }
};

struct ScheduleOptions {
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;    // needed by those that end
  double minimum_factor = 0;  // of cosine_warmup
};

// All rise linearly from 0 to 1 over warmup_steps, if there are any. Then "constant" stays at 1,
// "linear_warmup" falls linearly to 0 at total_steps, "cosine_warmup" falls as half a cosine to
// minimum_factor; there both stay. Throws NOT_FOUND with the nearest name, INVALID_ARGUMENT for options that
// do not fit.
std::shared_ptr<Schedule> schedule(std::string_view name, const ScheduleOptions& options);

// A schedule at work on an optimizer: sets the rate of each of its groups, now and after each step(), which
// follows the optimizer's. A copy is the same scheduler.
class Scheduler {
 public:
  Scheduler() = default;
  Scheduler(Optimizer& optimizer, std::shared_ptr<Schedule> schedule);
  explicit operator bool() const { return state_ != nullptr; }
  void step();
  int64_t last_step() const;
  const Schedule& schedule() const;
  void seek(int64_t step);

 private:
  struct Shared;
  Shared& shared() const;
  std::shared_ptr<Shared> state_;
};

}  // namespace weft::optim
