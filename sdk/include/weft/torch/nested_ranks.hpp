// Groups of ranks inside one another that split a flat tensor: each of the first group holds one part of it,
// each of the second one part of that part. Sums and gathers go group by group, in place: between nodes (the
// last group) travels only what a rank of the first group holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "handles.hpp"

namespace weft {
inline namespace sdk_v0 {

class NestedRanks {
 public:
  NestedRanks() = default;
  explicit NestedRanks(std::vector<Communicator> groups) : groups_(std::move(groups)) {
    for (const Communicator& group : groups_) size_ *= group.size();
  }

  size_t levels() const { return groups_.size(); }
  int64_t size() const { return size_; }

  // Where this rank's part of `elements` begins; they divide by size().
  int64_t begin_of_own(int64_t elements) const {
    int64_t begin = 0;
    for (const Communicator& group : groups_) begin += group.rank() * (elements /= group.size());
    return begin;
  }
  // What this rank holds of the flat `whole` after the first `levels` groups have split it.
  at::Tensor part(at::Tensor whole, size_t levels) const {
    for (size_t level = 0; level < levels; ++level) {
      const int64_t count = whole.numel() / groups_[level].size();
      whole = whole.narrow(0, groups_[level].rank() * count, count);
    }
    return whole;
  }
  at::Tensor own(const at::Tensor& whole) const { return part(whole, levels()); }

  // Level 0 first, each when the one before is done: `sum`, the part after `level + 1` or apart from `whole`,
  // becomes the sum over the group.
  Work reduce(const at::Tensor& whole, size_t level, const at::Tensor& sum) const {
    return groups_[level].reduce_scatter(sum, part(whole, level));
  }
  // The last level first, each when the one before is done.
  Work gather(const at::Tensor& whole, size_t level) const {
    return groups_[level].all_gather(part(whole, level), part(whole, level + 1));
  }

 private:
  std::vector<Communicator> groups_;
  int64_t size_ = 1;
};

}  // namespace sdk_v0
}  // namespace weft
