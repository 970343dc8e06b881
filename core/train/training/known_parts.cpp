#include "training/known_parts.hpp"

#include <ATen/ops/tensor.h>

#include <map>

#include "comm/agreement.hpp"
#include "device/tensors.hpp"

namespace weft {

namespace {

// Adds what the ranks of `ranks` publish of each part to `total`. Collective.
void add_over_ranks(const Communicator& ranks, const std::vector<KnownPart>& own,
                    std::vector<KnownPart>& total) {
  std::vector<double> numbers;
  for (const KnownPart& part : own) {
    // Halves of 32 bits, whose sums are exact in float64.
    for (const uint64_t half : {part.digest & 0xffffffff, part.digest >> 32})
      numbers.push_back(static_cast<double>(half));
    numbers.push_back(static_cast<double>(part.count));
    const auto& projections = part.gradient.projections;
    numbers.insert(numbers.end(), projections.begin(), projections.end());
  }
  const at::Tensor sums = at::tensor(numbers, at::kDouble);
  ranks.all_reduce(sums, ReduceOp::kSum, true).wait();
  const std::vector<double> found = device::values_of<double>(sums);
  const double* sum = found.data();
  for (KnownPart& part : total) {
    part.digest += static_cast<uint64_t>(sum[0]) + (static_cast<uint64_t>(sum[1]) << 32);
    part.count += static_cast<int64_t>(sum[2]);
    for (int s = 0; s < kSketches; ++s) part.gradient.projections[s] += sum[3 + s];
    sum += 3 + kSketches;
  }
}

}  // namespace

std::vector<KnownPart> known_parts(Bindings& bindings,
                                   const std::function<void(const Shard& shard, KnownPart& part)>& add) {
  const size_t size = bindings.params().size();
  std::map<Axes, std::vector<KnownPart>> own;
  on_every_rank(bindings.world().communicator(), [&] {
    for (const Axes axes : bindings.divided_axes()) own[axes].resize(size);
    for (const Shard& shard : bindings.publish(WEFT_REASON_CHECK)) {
      if (shard.copy) continue;
      KnownPart& part = own.at(shard.divided_axes)[shard.param->index];
      part.count += shard.count;
      add(shard, part);
    }
  });
  std::vector<KnownPart> total(size);
  for (const auto& [axes, parts] : own) add_over_ranks(bindings.comm(axes)->communicator, parts, total);
  return total;
}

}  // namespace weft
