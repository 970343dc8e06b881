#include "training/input_output.hpp"

#include <utility>

#include "device/tensors.hpp"
#include "weft/nn/masks.hpp"

namespace weft {

namespace {

State with_floating(State state, const auto& wanted, at::ScalarType dtype) {
  for (const auto& [name, tensor] : State(state))
    if (tensor.defined() && wanted(tensor.scalar_type())) state.set(name, tensor.to(dtype));
  return state;
}

// Moves the fields of `state` to the device, but for where documents begin, which attention reads on the
// host.
void move_to_device(State& state) {
  if (device::current().is_host()) return;
  for (auto& [name, tensor] : state)
    if (tensor.defined() && !nn::are_document_begins(tensor)) tensor = device::on_device(tensor);
}

}  // namespace

Batch fields_of_model(const Bindings& bindings, Batch batch) {
  if (const ChosenLoss& loss = bindings.options().loss)
    for (const std::string& field : loss.library().fields()) batch.erase(field);
  return batch;
}

State input_of(const Bindings& bindings, const Batch& given, bool continues) {
  const Batch batch = fields_of_model(bindings, given);
  State state = continues ? bindings.model().continued_input(batch) : bindings.model().input(batch);
  if (bindings.options().host.cast_inputs)
    state = with_floating(
        std::move(state), [](at::ScalarType type) { return at::isFloatingType(type); }, bindings.dtype());
  move_to_device(state);
  return state;
}

Batch on_device(const Batch& batch) {
  Batch moved = batch;
  move_to_device(moved);
  return moved;
}

State outputs_of(const Bindings& bindings, const State& last) {
  State outputs = bindings.model().outputs(last);
  if (!bindings.options().host.outputs_fp32) return outputs;
  return with_floating(std::move(outputs), &at::isReducedFloatingType, at::kFloat);
}

}  // namespace weft
