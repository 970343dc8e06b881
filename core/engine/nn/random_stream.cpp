#include "nn/random_stream.hpp"

#include "weft/nn/forward_context.hpp"

namespace weft::nn {

RandomStream::RandomStream(uint64_t stream) {
  const RunningUnit* const unit = RunningUnit::find();
  const bool seeded = unit != nullptr && unit->context().seed();
  if (stream == 0 && !seeded) return;
  const uint64_t seed = drawn_seed(stream);
  before_.emplace();
  device::seed_random(seed);
}

}  // namespace weft::nn
