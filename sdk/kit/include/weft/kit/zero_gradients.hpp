// The gradients of one bucket on their way to the ranks that own them, for zero_buckets.hpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "weft/kit/zero_values.hpp"

namespace weft::kit {

// Memory in which buckets collect. With spares, a bucket takes what another one has returned: pages that are
// mapped already.
class GradientMemory {
 public:
  // Sets how many elements a spare has; 0: there are none.
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
  std::vector<bool> filled;   // by parameter: there is something in its part of `flat`
  std::vector<bool> reached;  // by parameter: this backward has nothing more for it
  at::Tensor flat;            // while gradients are collected and summed; see keeps_whole of ZeroBuckets
  at::Tensor sent;            // `flat` under way, where it travels as another dtype
  at::Tensor sums;            // of the owned part, over all backwards since they were zeroed
  bool summed = false;        // `sums` holds some
  bool first_sum = false;     // the reduction under way writes to `sums` instead of adding
  size_t missing = 0;         // how many are not reached
  size_t level = 0;           // of the reduction under way
  Work reduction;

  // All levels of the reduction are done.
  bool is_finished() const { return level == layout->ranks.levels(); }
  bool is_one_gradient() const {
    return layout->entries.size() == 1 && layout->entries[0].count == layout->size;
  }
  const at::Tensor& travelling() const { return sent.defined() ? sent : flat; }

  // Takes the gradient of a parameter away; one that is the whole bucket is not even copied.
  void collect(size_t index, GradientMemory& memory);
  // Sets what nobody filled to zero.
  void clear_unfilled(GradientMemory& memory);
  // Keeps the sums in the owned part alone, so that the next sum counts them once.
  void keep_own_sums(const NestedRanks& ranks);
  // Takes the result of the reduction for the owned part.
  void take_sum(const at::Tensor& own, uint32_t home);
  void release(GradientMemory& memory);
};

}  // namespace weft::kit
