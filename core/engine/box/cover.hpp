// Whether boxes cover a tensor exactly once, in time that grows with their number alone.
#pragma once

#include <cstdint>
#include <vector>

#include "box/box.hpp"

namespace weft {

// Which elements boxes of a tensor cover, and how often each, in one number: the sum of x^i over the indices
// i of those elements in the flattened tensor, modulo the prime p = 2^61 - 1. Two coverings of N elements
// that differ have the same sum for at most N of the p values of x (a polynomial of degree below N has no
// more roots), so a random x tells them apart.
class Cover {
 public:
  // `shape`: of the tensor, with less than 2^63 elements. `point`: x.
  Cover(const std::vector<int64_t>& shape, uint64_t point);
  // Adds the elements of a box inside the tensor.
  void add(const Box& box);
  // Adds a sum that another rank made, of the same shape and point.
  void add(uint64_t sum);
  uint64_t sum() const { return sum_; }

 private:
  std::vector<uint64_t> steps_;  // x^stride of each dimension
  uint64_t sum_ = 0;
};

// Returns whether the boxes, all inside a tensor of this shape, hold each of its elements once. By a point
// that is drawn once per process: no file can be made to deceive it.
bool cover_once(const std::vector<int64_t>& shape, const std::vector<Box>& boxes);

}  // namespace weft
