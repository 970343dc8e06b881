// Pieces of a tensor whose element i is i.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "files/piece.hpp"

namespace weft::checkpoint::test {

using Shape = std::vector<int64_t>;

inline at::Tensor range_tensor(const Shape& shape) {
  return at::arange(Box::whole(shape).numel(), at::kFloat).view(shape);
}

// Appends elements [begin, begin + count) of the flattened tensor as pieces.
inline void add_range(const Shape& shape, int64_t begin, int64_t count, bool counted, Pieces& out,
                      const std::string& name = "t") {
  for (const Box& box : boxes_of_range(Box::whole(shape), begin, count))
    out.push_back({{name, at::kFloat, shape},
                   0,
                   box,
                   view_of(range_tensor(shape), Box::whole(shape), box).contiguous(),
                   counted});
}

// Appends this rank's part of a tensor that all ranks divide about equally.
inline void add_own_part(const Communicator& ranks, const Shape& shape, Pieces& out,
                         const std::string& name = "t") {
  const int64_t total = Box::whole(shape).numel(), begin = total * ranks.rank() / ranks.size();
  add_range(shape, begin, total * (ranks.rank() + 1) / ranks.size() - begin, true, out, name);
}

}  // namespace weft::checkpoint::test
