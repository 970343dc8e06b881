// Non-reentrant recomputation: forward keeps the inputs of a function instead of what its operations save;
// the first backward node that asks for a saved tensor runs the function again, with the random generator as
// it was.
#pragma once

#include <functional>
#include <string>

#include "weft/state.hpp"

namespace weft {

// What is run twice: `again` is true in the recomputation. It depends on nothing but the state, parameters,
// buffers, the random generator and what it captures, and is alive until backward is done.
using Recomputed = std::function<void(State& state, bool again)>;

// Runs `function` on `state` under recomputation.
void run_recomputed(const std::string& name, const Recomputed& function, State& state);

// How many of a model's units, the first ones, "off", "all" or a number says. Throws INVALID_ARGUMENT for
// anything else, and for more than there are.
size_t num_recomputed(const std::string& recompute, size_t num_units);

}  // namespace weft
