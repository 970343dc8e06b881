// The tables that strategies call, over Bindings and Training. One home for the boundary between C handles
// and the engine.
#pragma once

#include "weft/training.h"

namespace weft {

// The table behind an extension id, or null.
const void* training_services(weft_str id);

const weft_comm_services* comm_services();
const weft_step_services* step_services();

}  // namespace weft
