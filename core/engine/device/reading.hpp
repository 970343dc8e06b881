// Numbers that the device computes and the host reads later, all in one wait.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace weft::device {

// For one thread.
class Reading {
 public:
  // Adds the elements of `values` (fp64) to sums[0], sums[1], ...: at once if they are in host memory,
  // otherwise in read(), until when the memory behind `sums` must stay.
  void add(const at::Tensor& values, double* sums);
  // Makes the host wait for the device once, if there is something to read.
  void read();

 private:
  std::vector<std::pair<at::Tensor, double*>> unread_;
};

}  // namespace weft::device
