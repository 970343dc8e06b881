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
  // Adds the elements of `values` (fp64) to sums[0], sums[1], ..., or to sums[places[0]], sums[places[1]],
  // ... if `places` are given: at once if the elements are in host memory, otherwise in read(), until when
  // the memory behind `sums` must stay.
  void add(const at::Tensor& values, double* sums, std::vector<int64_t> places = {});
  // Starts to copy what was added: read() then waits for no work that the device is given after this call,
  // unless more is added.
  void begin();
  // Makes the host wait for the device once, if there is something to read.
  void read();

 private:
  struct Sums {
    int64_t count;  // of elements
    double* sums;
    std::vector<int64_t> places;  // empty: one after the other
    void add(const double* elements) const;
  };
  struct Copy {
    at::Tensor elements;  // one dimension, in page-locked memory
    std::vector<Sums> sums;
  };
  std::vector<std::pair<at::Tensor, Sums>> unread_;  // no copy has begun
  std::vector<Copy> copies_;
  Event done_;  // of the last copy
};

}  // namespace weft::device
