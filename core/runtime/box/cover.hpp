// Whether boxes cover a tensor exactly once, in time that grows with their number alone.
#pragma once

#include <cstdint>
#include <vector>

#include "box/box.hpp"

namespace weft {

// Tells which elements of a tensor some boxes cover, and how often each, in one number: the sum of x^i over
// the indices i of these elements in the flattened tensor, modulo the prime p = 2^61 - 1. Two coverings of a
// tensor of N elements that differ have the same sum for at most N of the p values of x (a polynomial of
// degree less than N has no more roots), so a random x tells them apart.
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

// Returns whether the boxes, all of them inside a tensor of this shape, contain each of its elements exactly
// once. Each process draws its own point, so a file cannot be made to deceive it.
bool cover_once(const std::vector<int64_t>& shape, const std::vector<Box>& boxes);

}  // namespace weft
