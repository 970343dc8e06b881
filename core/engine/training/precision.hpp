// The precisions of a training: autocast, and the dtypes of what goes into a model and comes out.
#pragma once

#include <ATen/core/ScalarType.h>

#include <optional>

#include "training/bindings.hpp"

namespace weft {

// While it lives, operations of this thread that gain from it compute in a half-precision dtype. Casts of
// weights are kept until the outermost one ends. Without a dtype it does nothing.
class Autocast {
 public:
  explicit Autocast(std::optional<at::ScalarType> dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;

 private:
  bool active_, was_enabled_ = false;
  at::ScalarType before_ = at::kFloat;
};

// Return the model's first state for `batch`, and its outputs of the last one, in the precisions that the
// training's options ask for.
State input_of(const Bindings& bindings, const Batch& batch);
State outputs_of(const Bindings& bindings, const State& last);

}  // namespace weft
