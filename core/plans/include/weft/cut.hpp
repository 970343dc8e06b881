// Which part of a tensor a rank keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

// Indices [begin, begin + count) of one dimension.
struct Run {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t end() const { return begin + count; }
  bool operator==(const Run&) const = default;
};

// The part that is the product of runs over the dimensions of a tensor. One run that is the whole dimension
// where it is not split; several where parts that stand side by side are split each by itself (q, k and v in
// one weight), or where the elements come in groups. A dimension without runs: the part has no elements (an
// expert that lives on another rank).
struct Cut {
  // By dimension, in the order in which the part holds them; the runs of a dimension are disjoint.
  std::vector<std::vector<Run>> dims;

  bool operator==(const Cut&) const = default;

  static Cut whole(const std::vector<int64_t>& shape) {
    Cut cut;
    for (const int64_t extent : shape) cut.dims.push_back({{0, extent}});
    return cut;
  }
  // Part `runs` of dimension `dim`, and all of the others.
  static Cut along(const std::vector<int64_t>& shape, std::size_t dim, std::vector<Run> runs) {
    Cut cut = whole(shape);
    cut.dims[dim] = std::move(runs);
    return cut;
  }
  // No element of a tensor of one dimension or more.
  static Cut nothing(const std::vector<int64_t>& shape) { return along(shape, 0, {}); }

  // The shape of the part.
  std::vector<int64_t> local() const {
    std::vector<int64_t> shape;
    for (const std::vector<Run>& runs : dims) {
      shape.push_back(0);
      for (const Run& run : runs) shape.back() += run.count;
    }
    return shape;
  }
};

}  // namespace weft
