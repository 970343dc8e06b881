// Seeds the default random generators, from which dropout draws. Ranks that share samples and positions get
// the same seed; all others get different ones.
#pragma once

#include "mesh/mesh.hpp"
#include "weft/world.hpp"

namespace weft {

void seed_generator(uint64_t seed, const Mesh& mesh);

// Derives new seeds from the generator of rank 0, after ranks have moved to other places on the mesh.
// Collective.
void reseed_generators(const World& world, const Mesh& mesh);

}  // namespace weft
