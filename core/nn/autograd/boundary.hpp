// The boundary between two units in the autograd graph, over all differentiable fields of a State. Backward
// reaches it once, when every consumer of every field is done.
#pragma once

#include <functional>
#include <vector>

#include "weft/state.hpp"

namespace weft {

// The side of a unit that a boundary is on.
enum class UnitSide { kBefore, kAfter };

// Makes backward call `fire` once the gradients of the differentiable fields of `state`, and of the
// differentiable tensors of `more`, are complete. `more` must be empty before a unit. If another boundary of
// the same `owner` covers exactly these tensors, both share its hook or node, and `fire` is called first.
//
// A boundary over one tensor that the unit has made is a pre-hook of its grad_fn, because each node of the
// graph costs time in backward. Any other boundary is an identity node through which the tensors pass.
// Returns false and changes nothing if no tensor is differentiable.
bool insert_boundary(State& state, UnitSide side, const void* owner, std::function<void()> fire,
                     const std::vector<at::Tensor*>& more = {});

}  // namespace weft
