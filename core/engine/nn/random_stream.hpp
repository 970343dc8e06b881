// Random numbers that differ between ranks whose default generators are alike.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft::nn {

// While it lives, the default generator of the CPU is that of stream `stream`, which follows from the
// generator's state and the number; afterwards the generator goes on as if one number had been drawn from it,
// whatever the stream drew. So ranks stay in step, and a recomputation draws the same again. Stream 0:
// nothing is changed.
class RandomStream {
 public:
  explicit RandomStream(uint64_t stream);
  ~RandomStream();
  RandomStream(const RandomStream&) = delete;

 private:
  at::Tensor saved_;  // undefined for stream 0
};

// A seed for stream `stream`: one number is drawn from the default generator of the CPU, also for stream 0.
uint64_t drawn_seed(uint64_t stream);

}  // namespace weft::nn
