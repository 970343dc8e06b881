// The gradients of one bucket, from backward to the reduced part that this rank owns. For zero_buckets.hpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/kit/zero_values.hpp"

namespace weft::plugin::kit {

// Allocates the buffers of buckets. With spares, it reuses buffers that other buckets have returned, whose
// pages are already mapped.
class GradientMemory {
 public:
  // Sets how many elements a buffer must have to be kept as a spare; 0: none is kept.
  void keep_spares_of(int64_t elements) { elements_ = elements; }

  at::Tensor take(int64_t size, at::ScalarType dtype);
  void give_back(const at::Tensor& memory);
  void free() { spares_.clear(); }

 private:
  std::vector<at::Tensor> spares_;
  int64_t elements_ = 0;
};

// The gradients of one bucket.
struct ZeroGradients {
  const ZeroValues::Bucket* layout = nullptr;
  std::vector<bool> filled;   // by parameter: its part of `flat` has a gradient
  std::vector<bool> reached;  // by parameter: this backward adds nothing more to it
  at::Tensor flat;         // the gradients while they are collected and reduced; see ZeroBuckets::keeps_whole
  at::Tensor sent;         // a copy of `flat` in the communication dtype, if that is another dtype
  at::Tensor sums;         // reduced gradients of the owned part, over all backwards since zero_grad
  bool summed = false;     // `sums` has values
  bool first_sum = false;  // the current reduction writes to `sums` instead of adding
  size_t missing = 0;      // how many parameters are not reached
  size_t level = 0;        // of the current reduction
  Work reduction, saving;

  // Returns true if all levels of the reduction are done.
  bool is_finished() const { return level == layout->ranks.levels(); }
  bool is_one_gradient() const {
    return layout->entries.size() == 1 && layout->entries[0].count == layout->size;
  }
  const at::Tensor& travelling() const { return sent.defined() ? sent : flat; }

  // Moves the .grad of a parameter into the bucket. If it fills the bucket alone, it is not copied.
  void collect(size_t index, GradientMemory& memory);
  // Sets the parts of `flat` that have no gradient to zero.
  void clear_unfilled(GradientMemory& memory);
  // Sets sums to zero outside the owned part, so that the next reduction counts them once.
  void keep_own_sums(const NestedRanks& ranks);
  // Adds the result of the reduction to the sums of the owned part, in the pool `home`: `saving` ends when
  // nothing reads `flat` any more.
  void take_sum(const at::Tensor& own, uint32_t home);
  void release(GradientMemory& memory);
};

}  // namespace weft::plugin::kit
