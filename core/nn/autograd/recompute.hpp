// Activation recomputation (checkpointing), non-reentrant as in torch.utils.checkpoint: forward keeps the
// inputs of a function instead of the tensors that its operations save. The first backward node that asks for
// a saved tensor runs the function again, with the random generator in the state that it had.
#pragma once

#include <functional>
#include <string>

#include "weft/state.hpp"

namespace weft {

// A function that is run in forward and again in backward; `again` is true in the recomputation. Its result
// must depend on the state, parameters, buffers, the default generator and its captures alone. Captures must
// stay valid until backward is done.
using Recomputed = std::function<void(State& state, bool again)>;

// Runs `function` on `state` and recomputes it in backward. `name` is the unit's, for errors. Backward throws
// INVALID_ARGUMENT if a field of the input was changed in place, INTERNAL if the recomputation saves another
// number of tensors than forward did.
void run_recomputed(const std::string& name, const Recomputed& function, State& state);

// Returns how many of a model's `num_units` units, counted from the first, the option `recompute` selects:
// "off", "all" or a number. Throws INVALID_ARGUMENT for any other text and for a number above `num_units`.
size_t num_recomputed(const std::string& recompute, size_t num_units);

}  // namespace weft
