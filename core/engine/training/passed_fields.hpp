// The fields of the State that pass from one unit to the next, with the shapes that this rank has of them.
#pragma once

#include <string>
#include <vector>

#include "training/bindings.hpp"

namespace weft {

// Returns the fields that enter `unit` for this batch, in the order of the State. Throws UNIMPLEMENTED for a
// field of a split sequence that a schedule cannot pass on, because it is not the residual stream.
std::vector<nn::FieldShape> passed_fields(const Bindings& bindings, const Batch& batch, uint32_t unit);

// Throws what passed_fields() would throw between two of these stages, if the model has an example of a
// batch. `plan` may be null; `strategy` is the beginning of the text.
void check_passed_fields(const nn::Model& model, const parallel::AppliedPlan* plan,
                         const pipeline::StageDivision& stages, const std::string& strategy);

}  // namespace weft
