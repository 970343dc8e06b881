#include "weft/kit/nested_ranks.hpp"

#include <utility>

namespace weft::kit {

NestedRanks::NestedRanks(std::vector<Communicator> groups) : groups_(std::move(groups)) {
  for (const Communicator& group : groups_) size_ *= group.size();
}

NestedRanks NestedRanks::along(const Training& training, uint32_t axes) {
  constexpr uint32_t kNearestFirst[] = {WEFT_AXIS_TENSOR,       WEFT_AXIS_TENSOR_COLUMN, WEFT_AXIS_TENSOR_ROW,
                                        WEFT_AXIS_TENSOR_DEPTH, WEFT_AXIS_EXPERT,        WEFT_AXIS_DATA,
                                        WEFT_AXIS_REPLICA,      WEFT_AXIS_PIPELINE};
  // TENSOR stands for its sub-axes.
  if ((axes >> WEFT_AXIS_TENSOR & 1) != 0)
    for (const uint32_t axis : {WEFT_AXIS_TENSOR_COLUMN, WEFT_AXIS_TENSOR_ROW, WEFT_AXIS_TENSOR_DEPTH})
      axes &= ~(1u << axis);
  std::vector<Communicator> groups;
  for (const uint32_t axis : kNearestFirst) {
    if ((axes >> axis & 1) == 0) continue;
    const Communicator group = training.communicator(1u << axis);
    if (group.size() > 1) groups.push_back(group);
  }
  if (groups.empty()) groups.push_back(training.communicator(0));
  return NestedRanks(std::move(groups));
}

int64_t NestedRanks::begin_of_own(int64_t elements) const {
  int64_t begin = 0;
  for (const Communicator& group : groups_) begin += group.rank() * (elements /= group.size());
  return begin;
}

at::Tensor NestedRanks::part(at::Tensor whole, size_t levels) const {
  for (size_t level = 0; level < levels; ++level) {
    const int64_t count = whole.numel() / groups_[level].size();
    whole = whole.narrow(0, groups_[level].rank() * count, count);
  }
  return whole;
}

Work NestedRanks::reduce(const at::Tensor& whole, size_t level, const at::Tensor& sum) const {
  return groups_[level].reduce_scatter(sum, part(whole, level));
}

Work NestedRanks::gather(const at::Tensor& whole, size_t level) const {
  return groups_[level].all_gather(part(whole, level), part(whole, level + 1));
}

}  // namespace weft::kit
