// Numbers that the device computes and the host reads later, all in one wait.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "device/stream.hpp"

namespace weft::device {

// For one thread.
class Reading {
 public:
  // Adds the elements of `values` (fp64) to sums[0], sums[1], ...: at once if they are in host memory,
  // otherwise in read(), until when the memory behind `sums` must stay.
  void add(const at::Tensor& values, double* sums);
  // Starts to copy what was added: read() then waits for no work that the device is given after this call,
  // unless more is added.
  void begin();
  // Makes the host wait for the device once, if there is something to read.
  void read();

 private:
  struct Copy {
    at::Tensor elements;                            // one dimension, in page-locked memory
    std::vector<std::pair<int64_t, double*>> sums;  // how many elements belong to which sums
  };
  std::vector<std::pair<at::Tensor, double*>> unread_;  // no copy has begun
  std::vector<Copy> copies_;
  Event done_;  // of the last copy
};

}  // namespace weft::device
