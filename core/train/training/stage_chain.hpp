// Runs a forward of one batch through all pipeline stages, one after another, without a schedule: the next
// token of a text depends on the one before it, so there is nothing that stages could do at the same time.
//
// Messages describe themselves: which fields a State has depends on what a cache of keys and values holds
// already, which no batch says. A field that is the same tensor as in the State before is not sent again, as
// what an encoder made, and a description that is the same has eight bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "schedule/schedule.hpp"
#include "training/bindings.hpp"
#include "weft/state.hpp"
#include "weft/world.hpp"

namespace weft {

class StageChain {
 public:
  // `bindings` outlive this object; their units are divided into several virtual stages.
  explicit StageChain(Bindings& bindings);

  // What a stage does: makes the State that the first unit reads, runs the units [begin, end), and makes the
  // result of what the last one left.
  struct Units {
    std::function<State()> input;
    std::function<void(uint32_t begin, uint32_t end, State& state)> run;
    std::function<State(const State& last)> result;
  };
  // Runs the units of all virtual stages in their order, each on the stage that has it. Returns the result
  // on the first stage, and no field on the others. `continues`: the forward goes on with the rows of the
  // one before, so that fields may be the same. Throws UNAVAILABLE naming the stage that is gone. Collective
  // over the stages.
  State forward(bool continues, const Units& units);

 private:
  // What has passed one boundary.
  struct Passed {
    std::string description;
    State fields;
    std::vector<uint32_t> versions;  // of the fields, on the side that sends
  };
  void send(uint32_t boundary, uint32_t to, const State& state);
  State receive(uint32_t boundary, uint32_t from);

  Bindings& bindings_;
  const Communicator stages_;
  const pipeline::Schedule placement_;
  std::map<uint32_t, Passed> passed_;  // by boundary: the virtual stage before it
};

}  // namespace weft
