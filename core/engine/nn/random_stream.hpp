// Random numbers that differ between ranks whose micro-batches or default generators are alike.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft::nn {

// While it lives, the default generator of the CPU is that of stream `stream`: in a unit whose micro-batch
// has random numbers of its own it follows from the next of them, elsewhere from the generator's state, which
// afterwards goes on as if one number had been drawn. So ranks stay in step, and a recomputation draws the
// same again. Elsewhere stream 0 changes nothing.
class RandomStream {
 public:
  explicit RandomStream(uint64_t stream);
  ~RandomStream();
  RandomStream(const RandomStream&) = delete;

 private:
  at::Tensor saved_;  // undefined: nothing was changed
};

// Returns a seed for stream `stream`: out of the random numbers of the micro-batch whose unit this thread
// runs, or else of the default generator of the CPU. One number is drawn, also for stream 0.
uint64_t drawn_seed(uint64_t stream);

}  // namespace weft::nn
