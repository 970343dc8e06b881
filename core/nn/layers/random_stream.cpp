#include "layers/random_stream.hpp"

#include "layers/graph_seeds.hpp"
#include "weft/nn/forward_context.hpp"

namespace weft::nn {

RandomStream::RandomStream(uint64_t stream) {
  RunningUnit* const unit = RunningUnit::find();
  const bool seeded = unit != nullptr && unit->context().seed();
  if (stream == 0 && !seeded) return;
  if (GraphSeeds* const graph = seeded ? unit->context().graph_seeds() : nullptr; stream == 0 && graph) {
    unit->draw();  // later draws of the unit are those of an eager run
    graph->use_generator();
    return;
  }
  const uint64_t seed = drawn_seed(stream);
  before_.emplace();
  device::seed_random(seed);
}

}  // namespace weft::nn
