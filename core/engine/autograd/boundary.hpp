// The boundary between two units in the autograd graph: one identity node over all differentiable fields of a
// State. Backward reaches it once, when every consumer of every field is done.
#pragma once

#include <functional>
#include <vector>

#include "weft/state.hpp"

namespace weft {

// Passes the differentiable fields of `state`, and the differentiable tensors of `more`, through one node
// that calls `fire` when backward reaches it. Where they are just what came out of the previous node of the
// same `owner`, that node calls `fire` too, before its own function: nothing lies between the two. Returns
// false and changes nothing if there are none.
bool insert_boundary(State& state, const void* owner, std::function<void()> fire,
                     const std::vector<at::Tensor*>& more = {});

}  // namespace weft
