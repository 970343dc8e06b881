// Groups of ranks nested in one another that divide a flat tensor: each rank of the first group holds one
// part of it, each of the second one part of that part. Sums and gathers go group by group, in place: between
// nodes (the last group) travels only what a rank of the first group holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/torch/handles.hpp"

namespace weft::kit {

// Nested groups of ranks, the innermost first.
class NestedRanks {
 public:
  NestedRanks() = default;
  explicit NestedRanks(std::vector<Communicator> groups);
  // Those along `axes` of the mesh, a group for each axis with more than one rank, neighbours first.
  static NestedRanks along(const Training& training, uint32_t axes);

  size_t levels() const { return groups_.size(); }
  int64_t size() const { return size_; }

  // Returns where this rank's part of `elements` begins; they are a multiple of size().
  int64_t begin_of_own(int64_t elements) const;
  // Returns what this rank holds of the flat `whole` after the first `levels` groups have divided it.
  at::Tensor part(at::Tensor whole, size_t levels) const;
  at::Tensor own(const at::Tensor& whole) const { return part(whole, levels()); }

  // Starts one level of a sum, level 0 first, each when the one before is done: `sum`, which is the part
  // after `level + 1` or lies apart from `whole`, becomes the sum over the group.
  Work reduce(const at::Tensor& whole, size_t level, const at::Tensor& sum) const;
  // Starts one level of a gather, the last level first, each when the one before is done.
  Work gather(const at::Tensor& whole, size_t level) const;

 private:
  std::vector<Communicator> groups_;
  int64_t size_ = 1;
};

}  // namespace weft::kit
