// Optimizers: update rules that the host applies to the shards that a strategy publishes, so every rule is
// right under every strategy. Names, options and defaults are PyTorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft {
class Training;
class Model;
}  // namespace weft

namespace weft::optim {

// Parameters by name, of one model.
struct Parameters {
  std::vector<std::string> names;
};

// The options of one group; what a rule does not know is refused when the optimizer is made.
using Hyper = std::map<std::string, double>;

struct Group {
  Parameters parameters;
  Hyper options;  // complete: the rule's defaults filled in; "lr" always there
  double initial_lr = 0;
};

// One published range of one parameter with its state.
struct Slice {
  at::Tensor value, gradient;                // flat, of the master dtype
  std::map<std::string, at::Tensor>* state;  // flat tensors of the same length, made by the rule on first use
};

// One update of many slices, which share nothing; float and double. `factor` multiplies every gradient
// (unscaling and clipping), in place. `step` counts from 1. Any range of a parameter may be a slice of its
// own.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::string name() const = 0;
  virtual Hyper defaults() const = 0;
  // Throws INVALID_ARGUMENT for values that the rule does not allow. `options` has every option.
  virtual void check(const Hyper& options) const = 0;
  virtual void update(std::vector<Slice>& slices, const Hyper& options, int64_t step,
                      double factor) const = 0;
};

// "sgd", "adam", "adamw"; throws NOT_FOUND with the nearest name.
std::shared_ptr<const Rule> rule(std::string_view name);
std::vector<std::string> rule_names();

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
