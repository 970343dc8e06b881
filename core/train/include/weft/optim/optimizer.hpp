// Optimizers. The host applies their update rules to the shards that a strategy publishes, so every rule is
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

// Some parameters of one model, by name.
struct Parameters {
  std::vector<std::string> names;
};

// Parameters with options of their own.
struct Group {
  Parameters parameters;
  Hyper options;  // complete, with the rule's defaults; "lr" is always there
  double initial_lr = 0;
};

// The options of SGD().
struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
// The options of Adam().
struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
// The options of AdamW().
struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

// An optimizer: a description before boost(), afterwards the one of the boosted model. A copy is the same
// optimizer.
class Optimizer {
 public:
  Optimizer() = default;
  // Makes an optimizer by the name of its rule ("adamw", "lamb", ...). Throws NOT_FOUND for an unknown rule
  // and INVALID_ARGUMENT for an unknown option, with the nearest name.
  Optimizer(std::string_view rule, Parameters parameters, Hyper options = {});
  Optimizer(std::string_view rule, std::vector<Group> groups);
  explicit operator bool() const { return shared_ != nullptr; }

  std::vector<Group>& groups();
  const Rule& rule() const;
  int64_t steps() const;  // how many updates were made

  // Applies the gradients, clipped as clip_* asked. Returns false if an overflow prevented the update. Blocks
  // on one small all-reduce over all ranks.
  bool step();
  void zero_grad();
  // Returns the global norm of the gradients, without the loss scale and before clipping, and scales them
  // down to `max_norm` if it is larger (under a loss scale, at the next step). A `norm_type` of infinity
  // takes the largest element. Blocks on a collective.
  double clip_grad_by_norm(double max_norm, double norm_type = 2);
  void clip_grad_by_value(double limit);

  struct Shared;
  Shared& shared() const;

 private:
  std::shared_ptr<Shared> shared_;
};

// PyTorch's optimizers of these names.
Optimizer SGD(Parameters parameters, const SGDOptions& options = {});
Optimizer Adam(Parameters parameters, const AdamOptions& options = {});
Optimizer AdamW(Parameters parameters, const AdamWOptions& options = {});

}  // namespace weft::optim
