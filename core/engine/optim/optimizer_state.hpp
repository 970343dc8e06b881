// The inside of an optimizer: its groups, and after boost the state of every range that the strategy
// publishes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optim/loss_scaler.hpp"
#include "training/bindings.hpp"
#include "weft/optim/optimizer.hpp"

namespace weft::optim {

// What one parameter has beside its elementwise states: how often it was updated, and the states of the whole
// parameter (Rule::states says which, state_shape their shapes). Equal on every rank: one of them saves it.
struct ParameterState {
  int64_t steps = 0;
  States whole;
};

struct Optimizer::Shared {
  std::shared_ptr<const Rule> rule;
  std::vector<Group> groups;
  std::shared_ptr<Bindings> training;               // null before boost
  std::function<void(const at::Tensor&)> backward;  // from a loss of that training
  int64_t steps = 0;
  std::map<uint32_t, ParameterState> parameters;          // by index; those that were updated
  std::map<std::pair<uint32_t, int64_t>, States> ranges;  // elementwise states: by parameter, begin of range
  std::vector<int> group_of;                              // by parameter; -1: not optimized
  std::optional<LossScaler> scaler;                       // with fp16
  double max_norm = 0, norm_type = 2;  // of the strategy's options; 0: no clipping but what is asked for
  double pending_clip = 1;  // of clip_grad_by_norm, where the gradients stay scaled until the update

  // Binds the optimizer to a model; every name must be one of its parameters, in one group at most.
  void attach(std::shared_ptr<Bindings> boosted);

  // One update over all ranks, in one all-reduce for each round of the rule (and one for an infinite norm
  // type): which parameters got a gradient anywhere, the norm if `max_norm` is positive or an overflow is
  // possible, what the rule sums, and `extra` numbers that the caller wants summed over the ranks that count
  // them. Parameters touched on no rank stay as they are; after an overflow all of them do, on every rank.
  struct Update {
    bool updated = true;
    double norm = 0;  // before clipping; only with max_norm
    std::vector<double> extra;
  };
  Update update(double max_norm, std::vector<double> extra);
};

}  // namespace weft::optim
