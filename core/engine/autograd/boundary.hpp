// The boundary of a unit in the graph: one identity node over all differentiable fields of a state, so that
// it fires once, when every consumer of every field is done.
#pragma once

#include <functional>
#include <vector>

#include "weft/state.hpp"

namespace weft {

// Passes the differentiable fields of `state`, and of `more`, through a node that calls `fire` when backward
// reaches it. Returns false if there are none: nothing was done.
bool insert_boundary(State& state, std::function<void()> fire, const std::vector<at::Tensor*>& more = {});

}  // namespace weft
