// A unit is the part of a model that a strategy schedules as a whole: the embeddings, one block, the head. It
// maps State to State. Hooks fire between units and nowhere else.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
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

// Returns true for one layer of a stack, such as a block: the unit's name is a path whose last part is the
// number of the layer ("h.3", "encoder.layers.0"), as those of make_blocks() are. Options that count layers
// count these units.
bool is_layer(const Unit& unit);

// Returns the child of `parent` at `path` ("encoder.layer"), for modules whose paths have these names in
// them. Registers the modules of the path that do not exist.
torch::nn::Module& submodule(torch::nn::Module& parent, std::string_view path);

// Returns the units of `count` blocks, which it registers in the submodule `path` of `parent`, under their
// numbers. make(layer) returns a block, as a std::shared_ptr; run(block, state) does the unit's work.
template <class Make, class Run>
std::vector<std::unique_ptr<Unit>> make_blocks(torch::nn::Module& parent, const std::string& path,
                                               int64_t count, const Make& make, Run run) {
  torch::nn::Module& list = submodule(parent, path);
  std::vector<std::unique_ptr<Unit>> units;
  for (int64_t layer = 0; layer < count; ++layer) {
    const std::string name = std::to_string(layer);
    const auto block = list.register_module(name, make(layer));
    units.push_back(make_unit(path + "." + name, {block.get()},
                              [run, block = block.get()](State& state) { run(*block, state); }));
  }
  return units;
}

}  // namespace weft::nn
