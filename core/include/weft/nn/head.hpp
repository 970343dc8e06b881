// What tells the classes of a model family apart: the modules after the last block, the outputs, the labels
// and the loss. Shapes: N rows, T positions, C channels.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/batch_fields.hpp"
#include "weft/nn/model.hpp"

namespace weft::nn {

// The last layers of a model, which make its outputs and its loss.
class Head {
 public:
  virtual ~Head() = default;

  // Inputs and labels of this class, beside those of all.
  virtual std::vector<std::string> fields() const { return {}; }
  // True if the ids of a model of tokens may be (B, choices, T).
  virtual bool has_choices() const { return false; }
  // Checks them and adds what forward needs to `state`, to travel through all units. `positions`: the shape
  // of the sequence's positions as Inputs::shape() gives it; `state` holds what the inputs have read.
  virtual void prepare(const BatchFields& batch, at::IntArrayRef positions, State& state) const {}
  // What forward uses, beside the last layers of the base model.
  virtual std::vector<torch::nn::Module*> modules() const { return {}; }
  // Takes kHidden and what prepare() added from `state`, and puts the outputs there. `finish`: the last
  // layers of the base model (its norm), which act on each position alone.
  using Finish = std::function<at::Tensor(const at::Tensor&)>;
  virtual void forward(const Finish& finish, State& state) const = 0;
  // As Model's, on a batch that prepare() has checked.
  virtual std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const { return {}; }
  virtual std::vector<LossCount> counts(const Batch& batch, at::IntArrayRef positions) const { return {}; }
  virtual std::vector<Tie> ties() const { return {}; }
};

// No head: "last_hidden_state".
std::unique_ptr<Head> make_base_head();

// x: (..., T, C), positions: (...), one for each -> (..., C)
at::Tensor select_positions(const at::Tensor& x, const at::Tensor& positions);
// Returns the field and erases it from `state`.
at::Tensor take(State& state, std::string_view name);
// Returns the field, or an undefined tensor if there is none.
at::Tensor find_or_undefined(const State& state, std::string_view name);

}  // namespace weft::nn
