// The inside of an optimizer: its groups, and after boost the state of every range that the strategy
// publishes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optim/loss_scaler.hpp"
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
  std::optional<LossScaler> scaler;                           // with fp16
  double max_norm = 0, norm_type = 2;  // of the strategy's options; 0: no clipping but what is asked for
  double pending_clip = 1;  // of clip_grad_by_norm, where the gradients stay scaled until the update

  // Binds the optimizer to a model; every name must be one of its parameters, in one group at most.
  void attach(std::shared_ptr<Training> boosted);

  // One update over all ranks in one all-reduce (two for an infinite norm type): which parameters got a
  // gradient anywhere, the norm if `max_norm` is positive or an overflow is possible, and `extra` numbers
  // that the caller wants summed over the ranks that count them. Parameters touched on no rank stay as they
  // are; after an overflow all of them do, on every rank.
  struct Update {
    bool updated = true;
    double norm = 0;  // before clipping; only with max_norm
    std::vector<double> extra;
  };
  Update update(double max_norm, std::vector<double> extra);

 private:
  void apply(const std::vector<Shard>& shards, const std::vector<double>& touched, double factor);
};

}  // namespace weft::optim
