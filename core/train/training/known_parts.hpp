// Digests and gradient sketches of whole parts of parameters. Groups of ranks that hold the same part may
// shard it at different offsets, so they cannot compare shards; they compare the sums over all shards of a
// part.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "training/bindings.hpp"
#include "training/digest.hpp"

namespace weft {

// This rank's part of a parameter.
struct KnownPart {
  uint64_t digest = 0;
  Sketch gradient;    // its projections
  int64_t count = 0;  // of the elements that are published

  // Returns true if every element is published, so that the other members are those of the whole part.
  bool is_whole(const weft_param& param) const { return count == param.count(); }
};

// Calls `add` for each shard that this rank publishes, except copies. Returns the sums over the ranks, by
// parameter. If `add` fails on one rank, all ranks throw. All-reduces 56 bytes for each parameter and set of
// axes that divides parts. Collective.
std::vector<KnownPart> known_parts(Bindings& bindings,
                                   const std::function<void(const Shard& shard, KnownPart& part)>& add);

}  // namespace weft
