// The random numbers of this process. Numbers that must be the same on every device, such as the seeds of
// masks and shuffles, are drawn by the generator of the host. A device has another one, from which its own
// operations draw, such as dropout inside of a fused attention. On the CPU both are one.
//
// Each function locks the generators that it uses.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft::device {

// Seeds both generators.
void seed_random(uint64_t seed);
// Returns the next 64 bits of the host's generator.
uint64_t draw_random();

// Return and set the state: bytes in host memory, those of the host's generator before those of the device's.
// A state that was saved on another device sets the host's generator alone.
at::Tensor random_state();
void set_random_state(const at::Tensor& state);

// Returns a new generator, whose numbers are the same on every device. It draws into host memory.
at::Generator host_generator(uint64_t seed);

// Keeps the state at construction and restores it at destruction.
class KeepRandomState {
 public:
  KeepRandomState() : state_(random_state()) {}
  ~KeepRandomState() { set_random_state(state_); }
  KeepRandomState(const KeepRandomState&) = delete;

 private:
  const at::Tensor state_;
};

}  // namespace weft::device
