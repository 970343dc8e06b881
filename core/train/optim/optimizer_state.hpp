// The private state of an Optimizer: its groups and, after boost, the states of every published shard.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optim/loss_scaler.hpp"
#include "training/bindings.hpp"
#include "weft/optim/optimizer.hpp"

namespace weft::optim {

// The number of updates of a parameter, and its states that are not elementwise (Rule::states names them,
// state_shape gives their shapes). Equal on every rank, so one of them saves it.
struct ParameterState {
  int64_t steps = 0;
  States whole;
};

struct Optimizer::Shared {
  std::shared_ptr<const Rule> rule;
  std::vector<Group> groups;
  std::shared_ptr<Bindings> training;               // null before boost
  std::function<void(const at::Tensor&)> backward;  // runs backward of a loss of that training
  int64_t steps = 0;
  std::map<uint32_t, ParameterState> parameters;          // by index of the parameter; only updated ones
  std::map<std::pair<uint32_t, int64_t>, States> ranges;  // elementwise states, by parameter and begin
  std::vector<int> group_of;                              // by parameter; -1: not optimized
  std::optional<LossScaler> scaler;                       // with fp16
  double max_norm = 0, norm_type = 2;  // of the strategy's options; 0: step() does not clip
  double pending_clip = 1;  // factor of clip_grad_by_norm, applied in the update if there is a loss scale

  // Binds the optimizer to a boosted model. Throws unless every name is one of its parameters and in one
  // group.
  void attach(std::shared_ptr<Bindings> boosted);
  // Returns the training. Throws FAILED_PRECONDITION naming `action` before boost.
  Bindings& boosted(std::string_view action) const;

  // Updates all parameters that got a gradient on some rank. It all-reduces once for each round of the rule,
  // and once more for an infinite norm type. That one all-reduce carries which parameters got a gradient, the
  // norm (if `max_norm` is positive or an overflow is possible), the sums of the rule, and the numbers of
  // `extra`, whose sums it returns. Before it, the host waits for the device once: for `reading`, which
  // `extra` may need, the norm and the sums. After an overflow no parameter changes, on any rank.
  //
  // The device itself may reduce the norm and decide by it, if it has all gradients and values and the rule
  // follows decisions. Then the host launches the update before it waits; three all-reduces carry what the
  // host knows, the norm, and `extra`.
  struct Update {
    bool updated = true;
    double norm = 0;  // before clipping; only with max_norm
    std::vector<double> extra;
  };
  // If `guarded`, no parameter changes either if the norm or a number of `extra` is not finite; the host
  // decides then.
  Update update(double max_norm, device::Reading& reading, const std::function<std::vector<double>()>& extra,
                bool guarded = false);
};

}  // namespace weft::optim
