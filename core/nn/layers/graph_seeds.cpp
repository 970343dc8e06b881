#include "layers/graph_seeds.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <optional>

#include "device/device.hpp"
#include "device/random.hpp"
#include "device/tensors.hpp"

namespace weft::nn {

namespace {

constexpr size_t kSeedsOfABlock = 256;
constexpr RunningUnit::Draw kOfTheGenerator = {UINT64_MAX, 1};  // no unit has this index

}  // namespace

at::Tensor GraphSeeds::tensor_of(RunningUnit::Draw draw, uint64_t offset) {
  const size_t at = seeds_.size() % kSeedsOfABlock;
  // Memory that nothing fills: libtorch's deterministic mode fills new tensors, and a graph would do so again
  // over the seeds of each replay.
  if (at == 0) blocks_.push_back(device::unfilled(kSeedsOfABlock, at::kLong));
  seeds_.push_back({draw, offset});
  return blocks_.back().narrow(0, static_cast<int64_t>(at), 1);
}

void GraphSeeds::replay(uint64_t seed, const std::function<void()>& launch) const {
  for (size_t b = 0; b < blocks_.size(); ++b) {
    std::vector<int64_t> values;
    const size_t end = std::min(seeds_.size(), (b + 1) * kSeedsOfABlock);
    for (size_t i = b * kSeedsOfABlock; i < end; ++i)
      values.push_back(static_cast<int64_t>(seeds_[i].draw.value(seed) + seeds_[i].offset));
    blocks_[b].narrow(0, 0, static_cast<int64_t>(values.size())).copy_(device::on_device(at::tensor(values)));
  }
  std::optional<device::KeepRandomState> before;
  if (uses_generator_) {
    before.emplace();
    device::seed_random(kOfTheGenerator.value(seed));
  }
  launch();
}

}  // namespace weft::nn
