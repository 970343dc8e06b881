// The inside of an optimizer: its groups, and after boost the state of every range that the strategy
// publishes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "training/training.hpp"
#include "weft/optim/optimizer.hpp"

namespace weft::optim {

// State of one range: tensors of its length, and how often it was updated.
struct RangeState {
  std::map<std::string, at::Tensor> tensors;
  int64_t steps = 0;
};

struct Optimizer::Shared {
  std::shared_ptr<const Rule> rule;
  std::vector<Group> groups;
  std::shared_ptr<Training> training;  // null before boost
  int64_t steps = 0;
  std::map<std::pair<uint32_t, int64_t>, RangeState> states;  // by parameter and begin of the range
  std::vector<int> group_of;                                  // by parameter; -1: not optimized

  // Binds the optimizer to a model; every name must be one of its parameters, in one group at most.
  void attach(std::shared_ptr<Training> boosted);

  // One update over all ranks in one all-reduce: which parameters got a gradient anywhere, the norm if
  // `max_norm` is positive, and `extra` numbers that the caller wants summed over the ranks that count them.
  // Parameters touched on no rank stay as they are.
  struct Update {
    bool updated = true;
    double norm = 0;  // before clipping; only with max_norm
    std::vector<double> extra;
  };
  Update update(double max_norm, std::vector<double> extra);
};

}  // namespace weft::optim
