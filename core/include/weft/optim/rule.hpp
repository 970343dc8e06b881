// Update rules: how a gradient changes a parameter. The host applies them to whatever ranges a strategy
// publishes, so a rule is right under every strategy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cut.hpp"

namespace weft::optim {

// The options of one group; what a rule does not know is refused when the optimizer is made.
using Hyper = std::map<std::string, double>;
using States = std::map<std::string, at::Tensor>;

// What one tensor of state belongs to. An elementwise state is split as its parameter is; the others are of
// the whole parameter, the same on every rank.
enum class StateKind { kElementwise, kRow, kColumn, kScalar };
struct StateInfo {
  std::string name;
  StateKind kind = StateKind::kElementwise;
};
// Of the parameter's shape (..., rows, columns): a row state is (..., rows), a column state (..., columns).
std::vector<int64_t> state_shape(StateKind kind, at::IntArrayRef shape);

// One parameter in an update. Every rank has it, whatever it holds of the values.
struct Whole {
  at::IntArrayRef shape = {};         // logical
  at::ScalarType dtype = at::kFloat;  // of the values that a rule sees
  States* state = nullptr;  // its states that are not elementwise; made by the rule, equal on every rank
  std::vector<std::vector<double>> sums;  // by round, over all ranks
  std::vector<double> partial;            // this rank's part of the sums of this round: zeros to add to
};

// One published range of one parameter with its state.
struct Slice {
  at::Tensor value, gradient;  // flat, of the master dtype
  States* state = nullptr;     // elementwise states: flat, of the same length, made by the rule on first use

  // For rules with sums. The values are elements [begin, begin + numel) of a part of the parameter,
  // flattened. This rank counts [counted_begin, counted_begin + counted_count) of them in sums, and no other
  // rank does.
  Whole* parameter = nullptr;
  const Cut* cut = nullptr;  // which part
  int64_t begin = 0;
  int64_t counted_begin = 0, counted_count = 0;
};

// Parameters that share their options and their number of updates.
struct UpdateBatch {
  const Hyper& options;
  int64_t step = 1;                // of this update, from 1
  double factor = 1;               // of every gradient (unscaling and clipping); the rule applies it in place
  std::vector<Slice> slices;       // what this rank has of them
  std::vector<Whole*> parameters;  // the same on every rank
};

// An update takes one round or more. Between two the host adds up over all ranks, in one all-reduce, what the
// first of them put into Whole::partial. A rule has no memory of its own. Float and double.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::string name() const = 0;
  virtual Hyper defaults() const = 0;  // NaN: must be given
  // Throws INVALID_ARGUMENT for values that the rule does not allow. `options` has every option.
  virtual void check(const Hyper& options) const = 0;
  // Of a parameter of this shape.
  virtual std::vector<StateInfo> states(const Hyper& options, at::IntArrayRef shape) const = 0;

  virtual int rounds() const { return 1; }
  // How many numbers a round adds up for one parameter: 0 (before the update, see measure) to rounds() - 1.
  virtual int64_t num_sums(int round, at::IntArrayRef shape) const { return 0; }
  // Round 0: adds one slice to the sums of its parameter, before anyone knows whether there will be an update
  // and by what factor. These sums travel with the host's own all-reduce.
  virtual void measure(Slice& slice, const Hyper& options) const {}
  // Rounds 1 to rounds().
  virtual void update(int round, UpdateBatch& batch) const = 0;
};

// Throws NOT_FOUND with the nearest name.
std::shared_ptr<const Rule> rule(std::string_view name);
std::vector<std::string> rule_names();

}  // namespace weft::optim
