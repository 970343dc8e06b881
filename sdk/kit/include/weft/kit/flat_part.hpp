// The shard of a flat buffer that one rank of a group keeps.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/torch/communicator.hpp"

namespace weft::kit {

// The elements of a parameter that are in a part of a buffer: `count` elements, which begin at `begin` in the
// parameter and at `place` in the part. There are none if `count` is 0 or less.
struct OwnRange {
  int64_t begin, place, count;
};

// Returns which elements of the parameter at [offset, offset + count) of a buffer are in the part
// [part_begin, part_begin + part_count) of the buffer.
OwnRange own_range(int64_t part_begin, int64_t part_count, int64_t offset, int64_t count);

// Splits the flat tensor `whole` into `group.size()` equal parts and returns a view of this rank's part.
at::Tensor own_part(const at::Tensor& whole, const Communicator& group);

// Allocates the storage of `whole`, which is empty, copies `own` to this rank's part of it and starts an
// all-gather of the parts of all ranks.
Work gather_parts(const at::Tensor& whole, const at::Tensor& own, const Communicator& group);

}  // namespace weft::kit
