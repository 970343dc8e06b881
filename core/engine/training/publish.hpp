// What a strategy publishes: the records behind stepping, clipping, saving and comparing.
#pragma once

#include "training/bindings.hpp"

struct weft_shard_sink {
  const weft::Bindings* bindings;
  std::vector<weft::Shard> shards;
};

namespace weft {

// Checks one record and adds it, in pieces where some features of the part are counted by another rank of the
// tensor axis, which has them too. Which part of a piece this rank counts: along the data, replica and tensor
// axes the ranks that have the same share it out among themselves, on the others the rank whose coordinate is
// 0 counts, so that every element counts once on any mesh and no rank works for all.
void add_shard(weft_shard_sink& sink, const weft_shard& record, const at::Tensor& value,
               const at::Tensor& gradient);

}  // namespace weft
