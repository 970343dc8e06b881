// Mistakes of operators: of libtorch and of Weft, of random numbers and of autocast.
#include <ATen/ATen.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <torch/library.h>

#include "sim/fallback.hpp"
#include "sim/sim_device.hpp"
#include "wrong_devices.hpp"

namespace weft::test {

namespace {

using torch::jit::Stack;

c10::IValue& argument(const c10::OperatorHandle& op, Stack& stack, size_t number) {
  return stack[stack.size() - op.schema().arguments().size() + number];
}
c10::IValue& result(const c10::OperatorHandle& op, Stack& stack, size_t number) {
  return stack[stack.size() - op.schema().returns().size() + number];
}

// Draws from a generator that nobody seeds, or from one that always begins anew.
void draw_wrongly(const c10::OperatorHandle& op, Stack* stack) {
  const auto made = [] { return at::detail::getPrivateUse1Hooks().getNewGenerator(sim::current_device()); };
  static at::Generator unseeded = made();
  if (is("ignores seeds")) argument(op, *stack, 3) = unseeded;
  if (is("draws the same again")) argument(op, *stack, 3) = made();
  if (is("draws from the host's generator")) at::rand({1});
  sim::run_on_cpu(op, stack);
}

// Draws the right numbers after a seed, but a state that is restored changes nothing.
void draw_on(const c10::OperatorHandle& op, Stack* stack) {
  const at::Generator device = at::detail::getPrivateUse1Hooks().getDefaultGenerator(sim::current_device());
  static at::Generator own = at::detail::getPrivateUse1Hooks().getNewGenerator(sim::current_device());
  static uint64_t seed = 0;
  if (device.current_seed() != seed) own.set_current_seed(seed = device.current_seed());
  argument(op, *stack, 3) = own;
  sim::run_on_cpu(op, stack);
}

void scale_first_result(const c10::OperatorHandle& op, Stack* stack) {
  sim::run_on_cpu(op, stack);
  const at::Tensor found = result(op, *stack, 0).toTensor();
  if (found.defined()) found.mul_(1.05);
}

void shift_seed(const c10::OperatorHandle& op, Stack* stack) {
  c10::IValue& seed = argument(op, *stack, 1);
  seed = seed.toInt() + 1;
  sim::run_on_cpu(op, stack);
}

void decay_more(const c10::OperatorHandle& op, Stack* stack) {
  const std::vector<at::Tensor> values = argument(op, *stack, 0).toTensorVector();
  sim::run_on_cpu(op, stack);
  values.back().mul_(0.999);
}

// Rounds before it adds, in half precision.
void sum_in_half(const c10::OperatorHandle& op, Stack* stack) {
  sim::run_on_cpu(op, stack);
  const at::Tensor sums = result(op, *stack, 0).toTensor();
  if (sums.scalar_type() == at::kHalf) sums.mul_(0.98);
}

}  // namespace

void spoil_operators() {
  static auto& aten = *new torch::Library(MAKE_TORCH_LIBRARY_IMPL(aten, PrivateUse1));
  static auto& own = *new torch::Library(MAKE_TORCH_LIBRARY_IMPL(weft, PrivateUse1));
  static auto& autocast = *new torch::Library(MAKE_TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1));
  using torch::CppFunction;
  if (is("ignores seeds") || is("draws the same again") || is("draws from the host's generator"))
    aten.impl("uniform_", CppFunction::makeFromBoxedFunction<&draw_wrongly>());
  if (is("restores no random state")) aten.impl("uniform_", CppFunction::makeFromBoxedFunction<&draw_on>());
  if (is("scales the gradient of tanh"))
    aten.impl("tanh_backward", CppFunction::makeFromBoxedFunction<&scale_first_result>());
  if (is("scales a product")) aten.impl("mm", CppFunction::makeFromBoxedFunction<&scale_first_result>());
  if (is("scales the gradient of a norm"))
    own.impl("layer_norm_backward", CppFunction::makeFromBoxedFunction<&scale_first_result>());
  if (is("scales a gated unit")) own.impl("gated", CppFunction::makeFromBoxedFunction<&scale_first_result>());
  if (is("has masks of its own")) own.impl("bernoulli_", CppFunction::makeFromBoxedFunction<&shift_seed>());
  if (is("decays twice")) own.impl("adam_", CppFunction::makeFromBoxedFunction<&decay_more>());
  if (is("sums in half precision"))
    own.impl("column_sums", CppFunction::makeFromBoxedFunction<&sum_in_half>());
  if (is("ignores autocast"))
    for (const char* const name : {"matmul", "mm"}) autocast.impl(name, CppFunction::makeFallthrough());
}

}  // namespace weft::test
