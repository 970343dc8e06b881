// Auxiliary losses in a step: weighted, divided by the positions of the global batch and reported like the
// terms of the model's loss.
#pragma once

#include <vector>

#include "training/step.hpp"

namespace weft {

// Appends to `counts`, which are summed over the ranks that train on different samples, the positions of each
// sequence in the step's micro-batches; and takes their sums from the end of `counts` again.
void append_positions(const weft_step& step, std::vector<double>& counts);
void take_positions(weft_step& step, std::vector<double>& counts);

// Adds `losses`, which the units of micro-batch `micro` added, to the step's reported terms. Returns their
// sum as the root of a backward; undefined if there are none.
at::Tensor add_auxiliary(weft_step& step, uint32_t micro, const std::vector<nn::AuxiliaryLoss>& losses);

// Returns true on the one of the ranks that run a unit on the same samples that speaks for the auxiliary
// losses of its layers: on all tensor ranks if these have other positions each, and on every pipeline stage,
// whose units are others.
bool speaks_for_auxiliary(const Training& training);

// Appends `losses` to the terms of an evaluation. Collective over the tensor ranks if these have other
// positions each.
void append_terms(Training& training, const nn::ForwardContext& context, bool empty,
                  const std::vector<nn::AuxiliaryLoss>& losses, Training::Forward& forward);

}  // namespace weft
