// Hierarchical communication: shards a flat tensor over nested groups of ranks. Each rank of the first group
// holds one part of the tensor, and each rank of the second group one part of that part. Reduce-scatters and
// all-gathers go group by group, in place, so that the last group, whose ranks are on different nodes,
// communicates one part only.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/torch/handles.hpp"

namespace weft::plugin::kit {

// Nested groups of ranks. The first is the innermost: its ranks are neighbours.
class NestedRanks {
 public:
  NestedRanks() = default;
  explicit NestedRanks(std::vector<Communicator> groups);
  // Returns the groups along `axes` of the mesh: one for each axis with more than one rank, neighbours first.
  static NestedRanks along(const Training& training, uint32_t axes);

  size_t levels() const { return groups_.size(); }
  int64_t size() const { return size_; }

  // Returns where this rank's part of a tensor of `elements` begins. `elements` must be a multiple of size().
  int64_t begin_of_own(int64_t elements) const;
  // Returns a view of this rank's part of the flat tensor `whole`, sharded over the first `levels` groups.
  at::Tensor part(at::Tensor whole, size_t levels) const;
  at::Tensor own(const at::Tensor& whole) const { return part(whole, levels()); }

  // Starts the reduce-scatter of one level. Levels go from 0 up; wait for each before you start the next.
  // `sum` receives this rank's part of the sum; it is part(whole, level + 1) or memory outside `whole`.
  Work reduce(const at::Tensor& whole, size_t level, const at::Tensor& sum) const;
  // Starts the all-gather of one level. Levels go from the last one down; wait for each before you start the
  // next.
  Work gather(const at::Tensor& whole, size_t level) const;

 private:
  std::vector<Communicator> groups_;
  int64_t size_ = 1;
};

}  // namespace weft::plugin::kit
