// What a strategy publishes: the records behind stepping, clipping, saving and comparing.
#pragma once

#include "training/bindings.hpp"

struct weft_shard_sink {
  const weft::Bindings* bindings;
  std::vector<weft::Shard> shards;
};

namespace weft {

// Checks one record and adds it, split where other ranks of the tensor axis hold and count some of its
// elements. Ranks that hold the same elements divide the counting among themselves (Mesh::counted_range), so
// every element counts once on any mesh and no rank works for all.
void add_shard(weft_shard_sink& sink, const weft_shard& record, const at::Tensor& value,
               const at::Tensor& gradient);

}  // namespace weft
