// The fields of the State that pass from one unit to the next, with the shapes that this rank has of them.
#pragma once

#include <vector>

#include "training/bindings.hpp"

namespace weft {

// Returns the fields that enter `unit` for this batch, in the order of the State.
std::vector<nn::FieldShape> passed_fields(const Bindings& bindings, const Batch& batch, uint32_t unit);

}  // namespace weft
