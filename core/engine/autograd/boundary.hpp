// The boundary of a unit in the graph: one identity node over all differentiable fields of a state, so that
// it fires once, when every consumer of every field is done.
#pragma once

#include <functional>

#include "weft/state.hpp"

namespace weft {

// Passes the differentiable fields of `state` through a node that calls `fire` when backward reaches it.
// False if there is no such field: nothing was done.
bool insert_boundary(State& state, std::function<void()> fire);

}  // namespace weft
