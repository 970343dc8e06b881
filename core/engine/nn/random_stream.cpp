#include "nn/random_stream.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <optional>

#include "weft/nn/forward_context.hpp"

namespace weft::nn {

namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;

// Draws a seed. The caller must hold the generator's mutex.
uint64_t draw(const at::Generator& generator, uint64_t stream) {
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64() + kGolden * stream;
}

}  // namespace

uint64_t drawn_seed(uint64_t stream) {
  RunningUnit* const unit = RunningUnit::find();
  if (const auto number = unit != nullptr ? unit->draw() : std::nullopt) return *number + kGolden * stream;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return draw(generator, stream);
}

RandomStream::RandomStream(uint64_t stream) {
  RunningUnit* const unit = RunningUnit::find();
  const auto number = unit != nullptr ? unit->draw() : std::nullopt;
  if (stream == 0 && !number) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  const uint64_t seed = number ? *number + kGolden * stream : draw(generator, stream);
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
