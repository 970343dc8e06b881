#include "weft/kit/zero_gradients.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>

namespace weft::plugin::kit {

namespace {

bool owns_its_memory(const at::Tensor& gradient) {
  return gradient.is_contiguous() && gradient.use_count() == 1 && gradient.storage().use_count() == 1 &&
         gradient.storage().nbytes() == gradient.nbytes();
}

}  // namespace

at::Tensor GradientMemory::take(int64_t size, at::ScalarType dtype) {
  if (size > elements_) return allocate(WEFT_POOL_ACCELERATOR, size, dtype);
  const auto found = std::find_if(spares_.begin(), spares_.end(),
                                  [&](const at::Tensor& spare) { return spare.scalar_type() == dtype; });
  if (found == spares_.end()) return allocate(WEFT_POOL_ACCELERATOR, elements_, dtype).narrow(0, 0, size);
  const at::Tensor memory = *found;
  spares_.erase(found);
  return memory.narrow(0, 0, size);
}

void GradientMemory::give_back(const at::Tensor& memory) {
  const auto elements = static_cast<int64_t>(memory.storage().nbytes() / memory.element_size());
  if (elements == elements_) spares_.push_back(memory.as_strided({elements}, {1}));
}

void ZeroGradients::collect(size_t index, GradientMemory& memory) {
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

void ZeroGradients::clear_unfilled(GradientMemory& memory) {
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

void ZeroGradients::keep_own_sums(const NestedRanks& ranks) {
  const int64_t begin = ranks.begin_of_own(layout->size), end = begin + layout->size / ranks.size();
  flat.narrow(0, 0, begin).zero_();
  flat.narrow(0, end, layout->size - end).zero_();
  std::fill(filled.begin(), filled.end(), true);
}

void ZeroGradients::take_sum(const at::Tensor& own, uint32_t home) {
  if (!first_sum) keep_sum(sums, saving, own, home, layout->dtype, summed);
  summed = true;
}

void ZeroGradients::release(GradientMemory& memory) {
  saving.wait();
  memory.give_back(flat);
  flat.reset();
  std::fill(filled.begin(), filled.end(), false);
}

}  // namespace weft::plugin::kit
