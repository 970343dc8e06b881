// The seeds of dropout in a CUDA graph. A replay repeats the kernel arguments of the capture, so kernels read
// their seeds from device memory, which is filled before each replay with those that an eager micro-batch
// would have drawn.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/nn/forward_context.hpp"

namespace weft::nn {

class GraphSeeds {
 public:
  // Returns one int64 on the device, which is filled before each replay with the seed of `draw` plus
  // `offset`.
  at::Tensor tensor_of(RunningUnit::Draw draw, uint64_t offset);
  // Notes that operations of libtorch draw from the device's generator, as dropout inside of a fused
  // attention does.
  void use_generator() { uses_generator_ = true; }
  // Calls `launch`, which replays the graph for a micro-batch with this seed. The generators continue as if
  // nothing had been drawn.
  void replay(uint64_t seed, const std::function<void()>& launch) const;

 private:
  struct Seed {
    RunningUnit::Draw draw;
    uint64_t offset;
  };
  std::vector<Seed> seeds_;         // in the order of `blocks_`
  std::vector<at::Tensor> blocks_;  // each has room for as many seeds
  bool uses_generator_ = false;
};

}  // namespace weft::nn
