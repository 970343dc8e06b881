// The tables of functions that strategies call (sdk/include/weft/training.h). They translate between C
// handles and the engine's objects.
#pragma once

#include "weft/training.h"

namespace weft {

// Returns the table of an extension such as "weft.comm/1", or null if there is none of this id.
const void* training_services(weft_str id);

const weft_comm_services* comm_services();
const weft_step_services* step_services();

}  // namespace weft
