#include "streams/summed_gradient.hpp"

#include <set>

#include "axes/cut.hpp"
#include "streams/node.hpp"
#include "streams/region.hpp"

namespace weft::parallel {

namespace {

// A range of this rank's shard along `dim` that all of `ranks` hold.
struct Shared {
  size_t dim;
  int64_t begin, count;
  Communicator ranks;
};

// Returns the ranges of this rank's shard that other ranks hold too.
std::vector<Shared> shared_elements(const plan::PlannedParameter& parameter, SharedGroups& groups) {
  std::vector<Shared> shared;
  const auto own = static_cast<size_t>(groups.tensor().rank());
  for (const size_t dim : split_dims(parameter.shape, parameter.cuts)) {
    groups.make(parameter.cuts, dim);
    int64_t at = 0;
    std::vector<uint32_t> before;  // the holders of the previous run
    for (const auto& [run, holders] : shared_runs(parameter.cuts, own, dim)) {
      if (holders.size() > 1 && holders == before)
        shared.back().count += run.count;
      else if (holders.size() > 1)
        shared.push_back({dim, at, run.count, groups.of(holders)});
      before = holders;
      at += run.count;
    }
  }
  return shared;
}

}  // namespace

void SharedGroups::make(const std::vector<Cut>& cuts, size_t dim) {
  std::set<std::vector<uint32_t>> sets;
  for (size_t rank = 0; rank < cuts.size(); ++rank)
    for (const SharedRun& run : shared_runs(cuts, rank, dim))
      if (run.holders.size() > 1) sets.insert(run.holders);
  for (const std::vector<uint32_t>& members : sets)
    if (!groups_.contains(members)) groups_[members] = tensor_.subset(members);
}

std::function<at::Tensor(const at::Tensor& parameter)> summed_gradient(
    const plan::PlannedParameter& parameter, SharedGroups& groups) {
  // A parameter that is sharded by heads may still be whole on every rank: keys and values with a single
  // head.
  if (split_dims(parameter.shape, parameter.cuts).empty())
    return [tensor = groups.tensor()](const at::Tensor& whole) { return enter(whole, tensor); };
  const std::vector<Shared> shared = shared_elements(parameter, groups);
  if (shared.empty()) return [](const at::Tensor& part) { return part; };
  return [shared](const at::Tensor& part) {
    return with_gradient(part, part, [shared](const at::Tensor& gradient) {
      // Autograd may pass the same tensor to other nodes, so the all-reduce must not overwrite it.
      const at::Tensor sum = gradient.clone(at::MemoryFormat::Contiguous);
      for (const Shared& elements : shared)
        elements.ranks
            .all_reduce(sum.narrow(static_cast<int64_t>(elements.dim), elements.begin, elements.count))
            .wait();
      return sum;
    });
  };
}

}  // namespace weft::parallel
