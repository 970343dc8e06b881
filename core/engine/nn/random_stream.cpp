#include "nn/random_stream.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "weft/nn/forward_context.hpp"

namespace weft::nn {

RandomStream::RandomStream(uint64_t stream) {
  const RunningUnit* const unit = RunningUnit::find();
  const bool seeded = unit != nullptr && unit->context().seed();
  if (stream == 0 && !seeded) return;
  const uint64_t seed = drawn_seed(stream);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  saved_ = generator.get_state();
  generator.set_current_seed(seed);
}

RandomStream::~RandomStream() {
  if (!saved_.defined()) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(saved_);
}

}  // namespace weft::nn
