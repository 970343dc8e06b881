// The default generators, from which dropout draws: alike on ranks that share samples and positions,
// different on all others.
#pragma once

#include "mesh/mesh.hpp"
#include "weft/world.hpp"

namespace weft {

void seed_generator(uint64_t seed, const Mesh& mesh);

// As rank 0's generator goes on, for ranks that lie in other axes than before. Collective.
void reseed_generators(const World& world, const Mesh& mesh);

}  // namespace weft
