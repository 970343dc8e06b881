// The head of a model: the modules after the last block, the outputs, the labels and the loss. The classes of
// a family (language model, token classification) differ in their heads. Shapes: N rows, T positions,
// C channels.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/batch_fields.hpp"
#include "weft/nn/model.hpp"

namespace weft::nn {

// The last layers of a model. They compute its outputs and its loss.
class Head {
 public:
  virtual ~Head() = default;

  // Returns the fields of a batch that this head reads beside the model's inputs, such as labels.
  virtual std::vector<std::string> fields() const { return {}; }
  // Returns whether ids may have shape (B, choices, T).
  virtual bool has_choices() const { return false; }
  // Checks these fields and adds to `state` what forward() reads; all units pass it on. `positions` is
  // Inputs::shape(); `state` holds what the inputs have written.
  virtual void prepare(const BatchFields& batch, at::IntArrayRef positions, State& state) const {}
  // Returns the modules that forward() uses, without the last layers of the base model.
  virtual std::vector<torch::nn::Module*> modules() const { return {}; }
  // Removes kHidden and the fields of prepare() from `state` and adds the outputs. `finish` applies the last
  // layers of the base model (its norm), which act on each position by itself.
  using Finish = std::function<at::Tensor(const at::Tensor&)>;
  virtual void forward(const Finish& finish, State& state) const = 0;
  // Like the functions of Model. prepare() has checked the batch.
  virtual std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const { return {}; }
  virtual std::vector<LossCount> counts(const Batch& batch, at::IntArrayRef positions) const { return {}; }
  virtual Labelled labelled() const { return Labelled::kNothing; }
  virtual std::vector<Objective> objectives() const { return {}; }
  virtual std::vector<Metric> metrics(const State& outputs, const Batch& batch) const { return {}; }
  virtual std::string perplexity_term() const { return ""; }
  virtual std::vector<Tie> ties() const { return {}; }
};

// Returns the head of a base model, whose output is "last_hidden_state".
std::unique_ptr<Head> make_base_head();

// Returns the vector of one position per sequence. x: (..., T, C), positions: (...) -> (..., C).
at::Tensor select_positions(const at::Tensor& x, const at::Tensor& positions);
// Returns the field and erases it from `state`.
at::Tensor take(State& state, std::string_view name);
// Returns the field, or an undefined tensor if there is none.
at::Tensor find_or_undefined(const State& state, std::string_view name);

}  // namespace weft::nn
