#include "nn/random_stream.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace weft::nn {

RandomStream::RandomStream(uint64_t stream) {
  if (stream == 0) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  const uint64_t drawn = at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
  saved_ = generator.get_state();
  generator.set_current_seed(drawn + 0x9E3779B97F4A7C15ull * stream);
}

RandomStream::~RandomStream() {
  if (!saved_.defined()) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(saved_);
}

}  // namespace weft::nn
