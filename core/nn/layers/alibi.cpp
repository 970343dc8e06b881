#include "weft/nn/alibi.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <bit>
#include <cmath>

#include "device/tensors.hpp"
#include "weft/nn/masks.hpp"

namespace weft::nn {

// In fp32 with the base rounded before its powers, as in Hugging Face.
at::Tensor alibi_slopes(int64_t num_heads) {
  const auto floor = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(num_heads)));
  const auto base_of = [](int64_t heads) {
    return static_cast<float>(std::exp2(-8.0 / static_cast<double>(heads)));
  };
  at::Tensor slopes = at::empty({num_heads}, at::kFloat);
  float* const slope = slopes.mutable_data_ptr<float>();
  for (int64_t head = 0; head < num_heads; ++head) {
    const bool extra = head >= floor;
    slope[head] = std::pow(base_of(extra ? 2 * floor : floor),
                           static_cast<float>(extra ? 2 * (head - floor) + 1 : head + 1));
  }
  return slopes;
}

Alibi::Alibi(int64_t num_heads) : heads{0, num_heads}, num_heads_(num_heads) {}

at::Tensor Alibi::slopes_on(c10::Device place) const {
  const std::lock_guard lock(mutex_);
  if (!slopes_.defined() || slopes_.device() != place)
    slopes_ = device::copy_to(alibi_slopes(num_heads_), place);
  return slopes_;
}

at::Tensor Alibi::operator()(const at::Tensor& x, const at::Tensor& padding) const {
  const Part own = part(x.size(1), heads.count);
  const auto slopes_of = [&] {
    return slopes_on(x.device())
        .narrow(0, heads.begin + own.heads.begin, own.heads.count)
        .view({1, -1, 1, 1});
  };
  if (KeyValueCache* const cache = KeyValueCache::current()) {
    const at::Tensor masked = cached_padding(padding, x);
    const at::Tensor bias = cache->by_key(this, [&](int64_t capacity) {
      return (slopes_of() * cache->positions(capacity, x).unsqueeze(1).unsqueeze(1)).to(x.scalar_type());
    });
    return masked.defined() ? bias + masked : bias;
  }
  at::Tensor positions;  // (1 or N, T)
  const bool has_documents = are_document_begins(padding);
  if (has_documents) {
    positions = positions_in_documents(padding);
    if (positions.device() != x.device()) positions = device::copy_to(positions, x.device());
  } else if (padding.defined()) {
    const at::Tensor attended = padding.flatten(1).eq(0).to(at::kLong);
    positions = (attended.cumsum(1) - 1) * attended;
  } else {
    positions = at::arange(own.positions, x.options().dtype(at::kLong)).unsqueeze(0);
  }
  const at::Tensor bias = (slopes_of() * positions.unsqueeze(1).unsqueeze(1)).to(x.scalar_type());
  return padding.defined() && !has_documents ? bias + padding : bias;
}

}  // namespace weft::nn
