// Which part of a tensor a rank holds when a plan splits it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

struct Segment {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t copies = 1;  // so many neighbouring ranks hold it, the first one's rank is a multiple of it
  bool operator==(const Segment&) const = default;
};

// Some segments of one dimension side by side, and all of the other dimensions. Several where parts that
// stand side by side are split each by itself (q, k and v in one weight).
struct Cut {
  int64_t dim = -1;               // -1: the whole tensor
  std::vector<Segment> segments;  // of `dim`, in the order in which the part holds them
  bool operator==(const Cut&) const = default;

  // The shape of the part of a tensor of this shape.
  std::vector<int64_t> local(std::vector<int64_t> shape) const {
    if (dim < 0) return shape;
    int64_t& extent = shape[static_cast<std::size_t>(dim)] = 0;
    for (const Segment& segment : segments) extent += segment.count;
    return shape;
  }
};

}  // namespace weft
