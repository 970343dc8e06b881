#include "weft/kit/nested_ranks.hpp"

#include <utility>

namespace weft::plugin::kit {

NestedRanks::NestedRanks(std::vector<Communicator> groups) : groups_(std::move(groups)) {
  for (const Communicator& group : groups_) size_ *= group.size();
}

NestedRanks NestedRanks::along(const Training& training, uint32_t axes) {
  constexpr const char* kTensorAxes[] = {"tensor.column", "tensor.row", "tensor.depth"};
  constexpr const char* kNearestFirst[] = {"tensor",  "tensor.column", "tensor.row", "tensor.depth",
                                           "experts", "data",          "replica",    "stages"};
  if ((axes & training.axes("tensor")) != 0)  // which stands for all three
    for (const char* axis : kTensorAxes) axes &= ~training.axes(axis);
  std::vector<Communicator> groups;
  const auto add = [&](uint32_t some) {
    axes &= ~some;
    const Communicator group = training.communicator(some);
    if (group.size() > 1) groups.push_back(group);
  };
  for (const char* axis : kNearestFirst)
    if (const uint32_t known = axes & training.axes(axis); known != 0) add(known);
  if (axes != 0) add(axes);  // those of a newer host
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

}  // namespace weft::plugin::kit
