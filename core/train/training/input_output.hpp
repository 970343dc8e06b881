// The dtypes and places of a model's inputs and outputs.
#pragma once

#include "training/bindings.hpp"

namespace weft {

// Returns the fields that are for the model: all but those that a loss of a library has for itself.
Batch fields_of_model(const Bindings& bindings, Batch batch);

// Return the state that enters the first unit for `batch`, which is on the host, and the outputs made from
// the state that leaves the last unit, in the dtypes that TrainingOptions ask for. Both are on the device. If
// `continues`, the batch is one of Model::continued_input.
State input_of(const Bindings& bindings, const Batch& batch, bool continues = false);
State outputs_of(const Bindings& bindings, const State& last);

// Returns the batch on the device, for losses.
Batch on_device(const Batch& batch);

}  // namespace weft
