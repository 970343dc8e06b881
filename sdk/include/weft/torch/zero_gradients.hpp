// The gradients of one bucket on their way to its owners, for zero_buckets.hpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <vector>

#include "zero_values.hpp"

namespace weft {
inline namespace sdk_v0 {

// Where buckets collect. With spares, one takes what another has given back: pages that are mapped already.
class GradientMemory {
 public:
  // Spares are of so many elements; 0: there are none.
  void keep_spares_of(int64_t elements) { elements_ = elements; }

  at::Tensor take(int64_t size, at::ScalarType dtype) {
    if (size > elements_) return allocate(WEFT_POOL_ACCELERATOR, size, dtype);
    const auto found = std::find_if(spares_.begin(), spares_.end(),
                                    [&](const at::Tensor& spare) { return spare.scalar_type() == dtype; });
    if (found == spares_.end()) return allocate(WEFT_POOL_ACCELERATOR, elements_, dtype).narrow(0, 0, size);
    const at::Tensor memory = *found;
    spares_.erase(found);
    return memory.narrow(0, 0, size);
  }
  void give_back(const at::Tensor& memory) {
    const auto elements = static_cast<int64_t>(memory.storage().nbytes() / memory.element_size());
    if (elements == elements_) spares_.push_back(memory.as_strided({elements}, {1}));
  }
  void free() { spares_.clear(); }

 private:
  std::vector<at::Tensor> spares_;
  int64_t elements_ = 0;
};

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

  bool is_one_gradient() const {
    return layout->entries.size() == 1 && layout->entries[0].count == layout->size;
  }
  const at::Tensor& travelling() const { return sent.defined() ? sent : flat; }

  // Takes the gradient of a parameter away; one that is the whole bucket is not even copied.
  void collect(size_t index, GradientMemory& memory) {
    at::NoGradGuard no_grad;
    const ZeroValues::Entry& entry = layout->entries[index];
    at::Tensor& gradient = entry.parameter.gradient();
    if (is_one_gradient() && !filled[index] && owns_its_memory(gradient)) {
      flat = gradient.detach().view(-1);
    } else {
      if (!flat.defined()) flat = memory.take(layout->size, layout->dtype);
      const at::Tensor place = flat.narrow(0, entry.begin, entry.count).view(gradient.sizes());
      filled[index] ? place.add_(gradient) : place.copy_(gradient);
    }
    filled[index] = true;
    gradient.reset();
  }

  // What nobody filled counts as zero.
  void clear_unfilled(GradientMemory& memory) {
    if (!flat.defined()) flat = memory.take(layout->size, layout->dtype);
    int64_t clear_from = 0;
    const auto clear_to = [&](int64_t end) {
      if (clear_from < end) flat.narrow(0, clear_from, end - clear_from).zero_();
    };
    for (size_t e = 0; e < filled.size(); ++e) {
      if (!filled[e]) continue;
      clear_to(layout->entries[e].begin);
      clear_from = layout->entries[e].begin + layout->entries[e].count;
    }
    clear_to(layout->size);
  }

  // Sums are counted once in the next sum: by their owners.
  void keep_own_sums(const NestedRanks& ranks) {
    const int64_t begin = ranks.begin_of_own(layout->size), end = begin + layout->size / ranks.size();
    flat.narrow(0, 0, begin).zero_();
    flat.narrow(0, end, layout->size - end).zero_();
    std::fill(filled.begin(), filled.end(), true);
  }

  // What the reduction gave for the owned part.
  void take_sum(const at::Tensor& own, uint32_t home) {
    if (summed || !sums.defined())
      keep_sum(sums, own, home, layout->dtype);
    else if (!first_sum)
      copy_values(sums, own);
    summed = true;
  }

  void release(GradientMemory& memory) {
    memory.give_back(flat);
    flat.reset();
    std::fill(filled.begin(), filled.end(), false);
  }

 private:
  static bool owns_its_memory(const at::Tensor& gradient) {
    return gradient.is_contiguous() && gradient.use_count() == 1 && gradient.storage().use_count() == 1 &&
           gradient.storage().nbytes() == gradient.nbytes();
  }
};

}  // namespace sdk_v0
}  // namespace weft
