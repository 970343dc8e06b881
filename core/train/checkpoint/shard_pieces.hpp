// Converts the shards that a strategy publishes to pieces of tensors.
#pragma once

#include "files/piece.hpp"
#include "training/handles.hpp"

namespace weft::checkpoint {

// Appends pieces of `tensor` to `out`. `values` has one element for each element of the shard: its values, or
// a state of the optimizer. add_held: over all ranks, exactly one counted piece has each element. add_wanted:
// the pieces cover the shard once, to be filled.
void add_held(const Shard& shard, const Entry& tensor, int64_t order, const at::Tensor& values, Pieces& out);
void add_wanted(const Shard& shard, const Entry& tensor, int64_t order, const at::Tensor& values,
                Pieces& out);

}  // namespace weft::checkpoint
