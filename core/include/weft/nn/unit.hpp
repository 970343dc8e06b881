// A unit is the part of a model that a strategy schedules as a whole: the embeddings, one block, the head. It
// maps State to State. Hooks fire between units and nowhere else.
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

  // Reads fields of `state`, writes its results to it, and erases what later units do not need. Activation
  // recomputation calls it again with the same fields, so the results depend only on these fields,
  // parameters, buffers and the random generator.
  virtual void forward(State& state) = 0;

  const std::string& name() const { return name_; }
  // Returns the modules whose parameters and buffers forward() uses, in the order in which it runs them,
  // including those that it shares with other units.
  const std::vector<torch::nn::Module*>& modules() const { return modules_; }

 protected:
  explicit Unit(std::string name) : name_(std::move(name)) {}
  // Records that forward() uses `module`, which the model owns, and returns it. Call it in the order in which
  // forward() runs the modules.
  template <class M>
  M& uses(M& module) {
    modules_.push_back(&module);
    return module;
  }

 private:
  std::string name_;
  std::vector<torch::nn::Module*> modules_;
};

// Returns a unit named `name` that calls `forward` with the State and uses `modules`.
std::unique_ptr<Unit> make_unit(std::string name, std::vector<torch::nn::Module*> modules,
                                std::function<void(State&)> forward);

}  // namespace weft::nn
