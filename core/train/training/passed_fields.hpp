// The fields of the State that pass from one unit, or one stage, to the next.
#pragma once

#include <string>
#include <vector>

#include "training/bindings.hpp"

namespace weft {

// Returns the fields that enter `unit` for this batch, in the order of the State.
std::vector<nn::FieldShape> passed_fields(const Bindings& bindings, const Batch& batch, uint32_t unit);

// Returns "[3, 4] of Double".
std::string shape_of(const at::Tensor& tensor);

// Throws INTERNAL naming the field and the unit unless `left`, the State that unit `last` left, has the
// fields `expected` that boundary() of the model lists, and no others: the next stage, which gets these
// alone, would compute something else. `given` has the fields among them that come from the batch, as they
// entered the stage. Floating-point fields may have another floating-point dtype, because of autocast.
void check_left_fields(const Bindings& bindings, uint32_t last, const State& left, const State& given,
                       const std::vector<nn::FieldShape>& expected);

}  // namespace weft
