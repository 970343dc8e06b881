#include "device/random.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/cat.h>

#include <mutex>

#include "device/device.hpp"
#include "device/graph.hpp"

namespace weft::device {

namespace {

at::Generator of_host() {
  return at::detail::getDefaultCPUGenerator();
}
at::Generator of_device() {
  return at::globalContext().defaultGenerator(current().place());
}

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}
void set_state_of(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}
void seed(at::Generator generator, uint64_t number) {
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(number);
}

// The bytes of the host's generator, which are as many in every state.
int64_t host_bytes() {
  static const int64_t bytes = state_of(of_host()).numel();
  return bytes;
}

}  // namespace

void seed_random(uint64_t number) {
  seed(of_host(), number);
  if (!current().is_host()) seed(of_device(), number);
}

uint64_t draw_random() {
  at::Generator generator = of_host();
  const std::lock_guard lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

at::Tensor random_state() {
  refuse_in_graph("activations are recomputed, which sets the state of the device's generator");
  const at::Tensor host = state_of(of_host());
  return current().is_host() ? host : at::cat({host, state_of(of_device())});
}

void set_random_state(const at::Tensor& state) {
  const int64_t others = state.numel() - host_bytes();
  set_state_of(of_host(), others > 0 ? state.narrow(0, 0, host_bytes()).clone() : state);
  if (current().is_host() || others <= 0) return;
  const at::Generator device = of_device();
  if (others == state_of(device).numel()) set_state_of(device, state.narrow(0, host_bytes(), others).clone());
}

at::Generator host_generator(uint64_t seed) {
  return at::detail::createCPUGenerator(seed);
}

}  // namespace weft::device
