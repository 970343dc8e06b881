// The boundary between two units in the autograd graph, over all differentiable fields of a State. Backward
// reaches it once, when every consumer of every field is done.
#pragma once

#include <functional>
#include <vector>

#include "weft/state.hpp"

namespace weft {

// The side of a unit that a boundary is on.
enum class UnitSide { kBefore, kAfter };

// Lets backward call `fire` when it reaches the differentiable fields of `state` and the differentiable
// tensors of `more`, of which there must be none before a unit. Where they are just what another boundary of
// the same `owner` is over, backward calls `fire` first: nothing lies between the two. A boundary over one
// tensor that the unit has made is a hook of the node that made it, because each node costs time in backward;
// any other is an identity node through which the tensors pass. Returns false and changes nothing if there
// are no such tensors.
bool insert_boundary(State& state, UnitSide side, const void* owner, std::function<void()> fire,
                     const std::vector<at::Tensor*>& more = {});

}  // namespace weft
