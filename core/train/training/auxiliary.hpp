// The auxiliary losses of a step. Each is weighted, divided by the number of positions in the global batch,
// and reported like a term of the model's loss.
#pragma once

#include <string>
#include <vector>

#include "training/step.hpp"

namespace weft {

// Appends the number of positions in the step's micro-batches, for each sequence of the model, to `counts`,
// which the caller all-reduces over Mesh::samples(). take_positions() then moves the sums from the end of
// `counts` into the step.
void append_positions(const weft_step& step, std::vector<double>& counts);
void take_positions(weft_step& step, std::vector<double>& counts);

// Returns the term under which the step reports the auxiliary loss `name`; a new one the first time.
size_t auxiliary_term(weft_step& step, const std::string& name);

// Adds `losses` of the units of micro-batch `micro` to the terms that the step reports. Returns their
// weighted sum, from which backward starts; undefined if no loss needs a gradient.
at::Tensor add_auxiliary(weft_step& step, uint32_t micro, const std::vector<nn::AuxiliaryLoss>& losses);

// Returns true if this rank reports the auxiliary losses of the units that it runs. Every tensor-parallel
// rank does if each has different positions; otherwise one of them does.
bool reports_auxiliary(const Bindings& bindings);

// Appends `losses` to the terms of an evaluation. Collective over the tensor-parallel ranks if each has
// different positions.
void append_terms(Bindings& bindings, const nn::ForwardContext& context, bool empty,
                  const std::vector<nn::AuxiliaryLoss>& losses, Training::Forward& forward);

}  // namespace weft
