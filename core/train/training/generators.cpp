#include "training/generators.hpp"

#include <ATen/ops/full.h>

#include "device/random.hpp"
#include "device/tensors.hpp"
#include "weft/nn/forward_context.hpp"

namespace weft {

void seed_generator(uint64_t seed, const Mesh& mesh) {
  device::seed_random(seed + 0x9E3779B97F4A7C15ull * mesh.place(Mesh::samples()).rank);
}

void reseed_generators(const World& world, const Mesh& mesh) {
  const at::Tensor seed = at::full({1}, static_cast<int64_t>(nn::drawn_seed()), at::kLong);
  world.communicator().broadcast(seed, 0, true).wait();
  seed_generator(static_cast<uint64_t>(device::value_of<int64_t>(seed)), mesh);
}

}  // namespace weft
