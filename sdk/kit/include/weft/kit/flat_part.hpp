// The part of a flat buffer that one rank of a group keeps.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/torch/communicator.hpp"

namespace weft::kit {

// What a part holds of a parameter: `count` elements that begin at `begin` in the parameter and at `place` in
// the part. A count of 0 or less: nothing.
struct OwnRange {
  int64_t begin, place, count;
};

// Returns what the part [part_begin, part_begin + part_count) of a buffer holds of the parameter that lies at
// [offset, offset + count) in the buffer.
OwnRange own_range(int64_t part_begin, int64_t part_count, int64_t offset, int64_t count);

// Returns the part of the flat `whole`, of `group.size()` equal ones, that this rank keeps.
at::Tensor own_part(const at::Tensor& whole, const Communicator& group);

// Gives `whole`, whose storage is empty, its memory, copies `own` to this rank's part and starts to gather
// the parts of all ranks.
Work gather_parts(const at::Tensor& whole, const at::Tensor& own, const Communicator& group);

}  // namespace weft::kit
