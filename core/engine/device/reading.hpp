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
  // Starts to copy what was added: read() then waits for no work that the device is given after this call.
  // Nothing may be added in between.
  void begin();
  // Makes the host wait for the device once, if there is something to read.
  void read();

 private:
  std::vector<std::pair<at::Tensor, double*>> unread_;
  at::Tensor copied_;  // by begin(): their elements, in page-locked memory
  Event done_;
};

}  // namespace weft::device
