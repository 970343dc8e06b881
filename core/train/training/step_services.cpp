// The services with which a strategy's schedule runs micro-batches.
#include <ATen/ops/empty.h>

#include "base/error_sink.hpp"
#include "base/text.hpp"
#include "device/device.hpp"
#include "training/passed_fields.hpp"
#include "training/services.hpp"
#include "training/step.hpp"

namespace weft {

namespace {

void check_micro(const weft_step& step, uint32_t micro) {
  if (micro >= step.micro.size()) fail(WEFT_OUT_OF_RANGE, "micro-batch {} of {}", micro, step.micro.size());
}

void check_unit(const weft_step& step, const weft_unit* unit) {
  if (unit == nullptr || unit->bindings != &step.bindings())
    fail(WEFT_INVALID_ARGUMENT, "the unit is not one of this training");
}

weft_status forward(weft_step* step, uint32_t micro, weft_unit* unit, weft_state* inout, weft_error* error) {
  return guarded(error, [&] {
    check_micro(*step, micro);
    check_unit(*step, unit);
    step->forward(micro, *unit, *inout);
  });
}

weft_status backward(weft_step* step, uint32_t micro, weft_state* outputs, weft_state* gradients,
                     weft_error* error) {
  return guarded(error, [&] {
    check_micro(*step, micro);
    if ((outputs == nullptr) != (gradients == nullptr))
      fail(WEFT_INVALID_ARGUMENT,
           "backward of micro-batch {} needs outputs and gradients, or neither to begin with the loss",
           micro);
    outputs == nullptr ? step->backward(micro) : step->backward(micro, &outputs->state, &gradients->state);
  });
}

weft_status boundary(weft_step* step, uint32_t micro, weft_unit* entering, weft_state** own,
                     weft_error* error) {
  return guarded(error, [&] {
    check_micro(*step, micro);
    check_unit(*step, entering);
    auto made = std::make_unique<weft_state>();
    for (const nn::FieldShape& field :
         passed_fields(step->bindings(), step->micro[micro].batch, entering->index)) {
      at::Tensor tensor = at::empty(field.shape, device::current().options(field.dtype));
      if (field.differentiable && step->training) tensor.set_requires_grad(true);
      made->state.set(field.name, tensor);
    }
    *own = made.release();
  });
}

}  // namespace

const weft_step_services* step_services() {
  static const weft_step_services table = [] {
    weft_step_services t{};
    t.struct_size = sizeof(t);
    t.micro_count = [](weft_step* step) { return static_cast<uint32_t>(step->micro.size()); };
    t.training = [](weft_step* step) -> uint32_t { return step->training; };
    t.input = [](weft_step* step, uint32_t micro, weft_state** own, weft_error* error) {
      return guarded(error, [&] {
        check_micro(*step, micro);
        *own = new weft_state{step->input(micro)};
      });
    };
    t.boundary = &boundary;
    t.forward = &forward;
    t.finish = [](weft_step* step, uint32_t micro, weft_state* last, weft_error* error) {
      return guarded(error, [&] {
        check_micro(*step, micro);
        step->finish(micro, last->state);
      });
    };
    t.backward = &backward;
    t.state_create = [] { return new weft_state; };
    t.state_destroy = [](weft_state* state) { delete state; };
    t.state_size = [](weft_state* state) { return static_cast<uint32_t>(state->state.size()); };
    t.state_name = [](weft_state* state, uint32_t index) {
      return index < state->state.size() ? borrow((state->state.begin() + index)->first)
                                         : weft_str{nullptr, 0};
    };
    t.state_tensor = [](weft_state* state, uint32_t index) -> const weft_at_tensor* {
      if (index >= state->state.size()) return nullptr;
      return reinterpret_cast<const weft_at_tensor*>(&(state->state.begin() + index)->second);
    };
    t.state_set = [](weft_state* state, weft_str name, const weft_at_tensor* tensor, weft_error* error) {
      return guarded(error,
                     [&] { state->state.set(view(name), *reinterpret_cast<const at::Tensor*>(tensor)); });
    };
    return t;
  }();
  return &table;
}

}  // namespace weft
