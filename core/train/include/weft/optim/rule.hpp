// Update rules: how a gradient changes a parameter. The host applies them to the ranges that a strategy
// publishes, so a rule is right under every strategy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cut.hpp"

namespace weft::device {
class Reading;  // core/runtime/device/reading.hpp
}

namespace weft::optim {

// The options of one group. An option that the rule does not have is refused when the optimizer is made.
using Hyper = std::map<std::string, double>;
// Optimizer states by name.
using States = std::map<std::string, at::Tensor>;

// The shape of an optimizer state. An elementwise state is split as its parameter is; the others belong to
// the whole parameter and are the same on every rank.
enum class StateKind { kElementwise, kRow, kColumn, kScalar };
// One optimizer state of a parameter.
struct StateInfo {
  std::string name;
  StateKind kind = StateKind::kElementwise;
};
// Returns the shape of a state of a parameter (..., rows, columns): (..., rows) for a row state, (...,
// columns) for a column state.
std::vector<int64_t> state_shape(StateKind kind, at::IntArrayRef shape);

// One whole parameter in an update. Every rank has one, whatever part of the values it holds.
struct Whole {
  at::IntArrayRef shape = {};         // logical
  at::ScalarType dtype = at::kFloat;  // of the values that a rule sees
  States* state = nullptr;  // its states that are not elementwise; made by the rule, equal on every rank
  std::vector<std::vector<double>> sums;  // by round, over all ranks
  std::vector<double> partial;            // this rank's part of the sums of this round: zeros to add to
};

// A published range of one parameter with its optimizer states.
struct Slice {
  at::Tensor value, gradient;  // flat, of the master dtype; the gradient see Rule::takes_half_gradients()
  States* state = nullptr;     // elementwise states: flat, of the same length, made by the rule on first use

  // For rules with sums. The values are elements [begin, begin + numel) of a part of the parameter,
  // flattened. This rank counts [counted_begin, counted_begin + counted_count) of them in sums, and no other
  // rank does.
  Whole* parameter = nullptr;
  const Cut* cut = nullptr;  // which part
  int64_t begin = 0;
  int64_t counted_begin = 0, counted_count = 0;

  at::Tensor working = {};  // what the layers use of the value; may be undefined; see Rule::fills_working()
};

// Parameters with the same options and the same number of updates.
struct UpdateBatch {
  const Hyper& options;
  int64_t step = 1;                // of this update, from 1
  double factor = 1;               // of every gradient (unscaling and clipping); the rule applies it in place
  std::vector<Slice> slices;       // what this rank has of them
  std::vector<Whole*> parameters;  // the same on every rank
  // The result of operators::Decide, on the device: its factor replaces `factor`, and it may skip the update
  // because of an overflow. Given to rules with takes_decisions() alone.
  std::optional<at::Tensor> decision = std::nullopt;
};

// An update rule. An update takes one or more rounds; between two rounds the host sums Whole::partial over
// all ranks in one all-reduce. A rule keeps no state of its own. Values are float or double.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual std::string name() const = 0;
  virtual Hyper defaults() const = 0;  // NaN: must be given
  // Throws INVALID_ARGUMENT for values that the rule does not allow. `options` is complete.
  virtual void check(const Hyper& options) const = 0;
  // Returns the states that the rule keeps for a parameter of this shape.
  virtual std::vector<StateInfo> states(const Hyper& options, at::IntArrayRef shape) const = 0;

  // Returns whether the rule can update values in the memory of this one, which is not host memory. The host
  // refuses the others.
  virtual bool runs_on(const at::Tensor& value) const { return false; }

  // Returns whether update() takes gradients in half precision for values in fp32. Otherwise the host
  // converts them first, one parameter at a time.
  virtual bool takes_half_gradients() const { return false; }

  // Returns whether update() follows UpdateBatch::decision, so that it is launched before the host knows the
  // norm of the gradients.
  virtual bool takes_decisions() const { return false; }

  // Returns whether the last round also rounds the new values in fp32 to Slice::working. Otherwise the host
  // does afterwards.
  virtual bool fills_working() const { return false; }

  virtual int rounds() const { return 1; }
  // Returns how many numbers a round sums for one parameter. Rounds are 0 (before the update, see measure())
  // to rounds() - 1.
  virtual int64_t num_sums(int round, at::IntArrayRef shape) const { return 0; }
  // Adds a slice to the sums of round 0, before it is known whether there will be an update and with what
  // factor. The host's own all-reduce carries these sums. Sums that a device computes go through `reading`.
  virtual void measure(Slice& slice, const Hyper& options, device::Reading& reading) const {}
  // Performs a round, 1 to rounds(). Adds to the sums of the round as measure() does.
  virtual void update(int round, UpdateBatch& batch, device::Reading& reading) const = 0;
};

// Return the rule of this name, and the names of all rules. rule() throws NOT_FOUND with the nearest name.
std::shared_ptr<const Rule> rule(std::string_view name);
std::vector<std::string> rule_names();

}  // namespace weft::optim
