// The random numbers of a captured micro-batch. A graph repeats its launches with the arguments of the
// capture, so kernels read the seeds of their masks from the device, where each replay has other ones: those
// that an eager micro-batch would have drawn.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/nn/forward_context.hpp"

namespace weft::nn {

class GraphSeeds {
 public:
  // Returns the place, one int64 on the device, of the seed that `draw` gives plus `offset`.
  at::Tensor place_of(RunningUnit::Draw draw, uint64_t offset);
  // Notes that operations of libtorch draw from the device's generator, as dropout inside of a fused
  // attention does.
  void use_generator() { uses_generator_ = true; }
  // Calls `launch`, which replays the graph for a micro-batch with this seed. The generators continue as if
  // nothing had been drawn.
  void replay(uint64_t seed, const std::function<void()>& launch) const;

 private:
  struct Place {
    RunningUnit::Draw draw;
    uint64_t offset;
  };
  std::vector<Place> places_;       // in the order of `blocks_`
  std::vector<at::Tensor> blocks_;  // each has room for as many seeds
  bool uses_generator_ = false;
};

}  // namespace weft::nn
