// The outputs of a batch, from the ranks that have them.
#pragma once

#include "training/bindings.hpp"
#include "weft/state.hpp"

namespace weft {

// Returns the outputs of the whole global batch, on the host, in the order of its samples. `outputs` are
// those that Job::forward_and_evaluate() returned for this rank's part `batch`. All ranks get the same.
// Collective.
State gather_outputs(State outputs, const Batch& batch, Bindings& bindings);

}  // namespace weft
