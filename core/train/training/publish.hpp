// Collects the shards that a strategy publishes. Updating, clipping, saving and loading work on these.
#pragma once

#include <string_view>

#include "training/bindings.hpp"

struct weft_shard_sink {
  const weft::Bindings* bindings;
  std::vector<weft::Shard> shards;
  std::vector<weft::Kept> kept;
};

namespace weft {

// Checks one published range and adds it to the sink. Splits it where another part holds and counts some of
// its elements. Mesh::counted_range determines which of the ranks that hold an element counts it, so that
// sums over all ranks count every element once on any mesh.
void add_shard(weft_shard_sink& sink, const weft_shard& record, const at::Tensor& value,
               const at::Tensor& gradient, const at::Tensor& working);
// Does the same with a range of a tensor of the strategy's own.
void add_kept(weft_shard_sink& sink, std::string_view name, const weft_shard& record,
              const at::Tensor& value);

}  // namespace weft
