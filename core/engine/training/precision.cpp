#include "training/precision.hpp"

#include <ATen/autocast_mode.h>

#include <utility>

namespace weft {

Autocast::Autocast(std::optional<at::ScalarType> dtype) : active_(dtype) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(at::kCPU);
  before_ = at::autocast::get_autocast_dtype(at::kCPU);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, *dtype);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, was_enabled_);
  at::autocast::set_autocast_dtype(at::kCPU, before_);
}

namespace {

State with_floating(State state, const auto& wanted, at::ScalarType dtype) {
  for (const auto& [name, tensor] : State(state))
    if (tensor.defined() && wanted(tensor.scalar_type())) state.set(name, tensor.to(dtype));
  return state;
}

}  // namespace

State input_of(const Bindings& bindings, const Batch& batch) {
  State state = bindings.model().input(batch);
  if (!bindings.options().cast_inputs) return state;
  return with_floating(
      std::move(state), [](at::ScalarType type) { return at::isFloatingType(type); }, bindings.dtype());
}

State outputs_of(const Bindings& bindings, const State& last) {
  State outputs = bindings.model().outputs(last);
  if (!bindings.options().outputs_fp32) return outputs;
  return with_floating(std::move(outputs), &at::isReducedFloatingType, at::kFloat);
}

}  // namespace weft
