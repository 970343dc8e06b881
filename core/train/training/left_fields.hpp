// Compares what a pipeline stage is about to pass on with what the model says of it.
#pragma once

#include <string>
#include <vector>

#include "training/bindings.hpp"

namespace weft {

// Returns "[3, 4] of Double".
std::string shape_of(const at::Tensor& tensor);

// Throws INTERNAL naming the field and the unit unless `left`, the State that unit `last` left, has the
// fields `expected` that boundary() of the model lists, and no others: the next stage, which gets these
// alone, would compute something else. `given` has the fields among them that come from the batch, as they
// entered the stage. Floating-point fields may have another floating-point dtype, because of autocast.
void check_left_fields(const Bindings& bindings, uint32_t last, const State& left, const State& given,
                       const std::vector<nn::FieldShape>& expected);

}  // namespace weft
