// A unit: the piece of a model that a strategy schedules as a whole (the embeddings, one block, the head). It
// maps State to State. Hooks exist at the boundaries of units only.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/state.hpp"

namespace weft::nn {

// The base of all units.
class Unit {
 public:
  virtual ~Unit() = default;
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  // Reads its fields from `state` and puts its results there; what later units do not need it erases. Called
  // again with the same fields when the unit is recomputed, so it depends on nothing else but parameters,
  // buffers and the random generator.
  virtual void forward(State& state) = 0;

  const std::string& name() const { return name_; }
  // The modules whose parameters and buffers it uses, those shared with other units too.
  const std::vector<torch::nn::Module*>& modules() const { return modules_; }

 protected:
  explicit Unit(std::string name) : name_(std::move(name)) {}
  // Says that forward uses `module`; returns it. The model's tree owns the module.
  template <class M>
  M& uses(M& module) {
    modules_.push_back(&module);
    return module;
  }

 private:
  std::string name_;
  std::vector<torch::nn::Module*> modules_;
};

// A unit named `name` that runs `forward` on the state and uses `modules`.
std::unique_ptr<Unit> make_unit(std::string name, std::vector<torch::nn::Module*> modules,
                                std::function<void(State&)> forward);

}  // namespace weft::nn
