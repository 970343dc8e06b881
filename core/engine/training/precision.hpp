// Precision in forward: autocast, and the dtypes of a model's inputs and outputs.
#pragma once

#include <ATen/core/ScalarType.h>

#include <optional>

#include "training/bindings.hpp"

namespace weft {

// Enables autocast to `dtype` on this thread while it lives. Without a dtype it does nothing. The cache of
// cast weights is cleared when the outermost Autocast ends.
class Autocast {
 public:
  explicit Autocast(std::optional<at::ScalarType> dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;

 private:
  bool active_, was_enabled_ = false;
  at::ScalarType before_ = at::kFloat;
};

// Return the state that enters the first unit for `batch`, and the outputs made from the state that leaves
// the last unit, in the dtypes that TrainingOptions ask for.
State input_of(const Bindings& bindings, const Batch& batch);
State outputs_of(const Bindings& bindings, const State& last);

}  // namespace weft
