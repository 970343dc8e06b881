// The shard of a flat buffer that one rank of a group keeps.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "weft/torch/pools.hpp"

namespace weft::plugin::kit {

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

// Allocates the storage of `whole`, which is empty, calls `fill` to copy values from the pool `home` to this
// rank's part of it, and starts an all-gather of the parts of all ranks. From host memory it is a transfer,
// which runs beside computation.
Work gather_parts(const at::Tensor& whole, uint32_t home, const Communicator& group,
                  const std::function<void(const at::Tensor& place)>& fill);

// The master weights of a part, in a pool. In host memory there is a copy in the working dtype beside them,
// if that is another dtype: the host rounds to it whenever it writes values, so that none are converted when
// they are copied to the accelerator, and only the copy is page-locked.
struct HomePart {
  HomePart() = default;
  // Allocates the part, and fills it with zeros.
  HomePart(uint32_t home, int64_t count, at::ScalarType master, at::ScalarType working);
  // Returns what is copied to the accelerator.
  const at::Tensor& source() const { return rounded.defined() ? rounded : values; }
  void round() {
    if (rounded.defined()) rounded.copy_(values);
  }

  at::Tensor values, rounded;  // `rounded` may be undefined
};

}  // namespace weft::plugin::kit
