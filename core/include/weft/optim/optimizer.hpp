// Optimizers: update rules that the host applies to the shards that a strategy publishes, so every rule is
// right under every strategy. Names, options and defaults are PyTorch's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/optim/rule.hpp"

namespace weft {
class Training;
class Model;
}  // namespace weft

namespace weft::optim {

// Parameters by name, of one model.
struct Parameters {
  std::vector<std::string> names;
};

struct Group {
  Parameters parameters;
  Hyper options;  // complete: the rule's defaults filled in; "lr" always there
  double initial_lr = 0;
};

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

// A copy is the same optimizer. Before boost it is a description; afterwards it acts on the boosted model.
class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(std::string_view rule, Parameters parameters, Hyper options = {});
  Optimizer(std::string_view rule, std::vector<Group> groups);
  explicit operator bool() const { return shared_ != nullptr; }

  std::vector<Group>& groups();
  const Rule& rule() const;
  int64_t steps() const;  // updates made

  // Applies the gradients; what clip_* asked for happens here. Returns false if nothing was updated (an
  // overflow). Blocks on one small all-reduce over all ranks.
  bool step();
  void zero_grad();
  // The global norm over every shard, of the gradients without the scale of the loss, before clipping; scales the
  // gradients down to `max_norm` if it is larger (with a loss scale at the next step). `norm_type` infinity: the
  // largest element. Blocks.
  double clip_grad_by_norm(double max_norm, double norm_type = 2);
  void clip_grad_by_value(double limit);

  struct Shared;
  Shared& shared() const;

 private:
  std::shared_ptr<Shared> shared_;
};

Optimizer SGD(Parameters parameters, const SGDOptions& options = {});
Optimizer Adam(Parameters parameters, const AdamOptions& options = {});
Optimizer AdamW(Parameters parameters, const AdamWOptions& options = {});

}  // namespace weft::optim
