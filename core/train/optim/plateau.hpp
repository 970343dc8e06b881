// Reduces the learning rate when a metric stops improving, as torch.optim.lr_scheduler.ReduceLROnPlateau.
#pragma once

#include <limits>
#include <string>

#include "base/options.hpp"

namespace weft::optim {

class Plateau {
 public:
  explicit Plateau(const Options& options);

  double rate(double initial) const;
  void observe(double metric);
  std::string state() const;
  void restore(const std::string& state);

 private:
  bool is_better(double metric) const;

  bool largest_, relative_;
  double factor_, threshold_, min_lr_, eps_;
  int64_t patience_, cooldown_;
  struct State {
    double best;  // infinite before the first metric
    int64_t bad_steps = 0, cooling = 0, reductions = 0;
  } state_;
};

}  // namespace weft::optim
