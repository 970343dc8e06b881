#include "nn/random_stream.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace weft::nn {

namespace {

// The generator is locked.
uint64_t draw(const at::Generator& generator, uint64_t stream) {
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64() + 0x9E3779B97F4A7C15ull * stream;
}

}  // namespace

uint64_t drawn_seed(uint64_t stream) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return draw(generator, stream);
}

RandomStream::RandomStream(uint64_t stream) {
  if (stream == 0) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  const uint64_t seed = draw(generator, stream);
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
