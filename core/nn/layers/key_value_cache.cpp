#include "weft/nn/key_value_cache.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "base/text.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/masks.hpp"

namespace weft::nn {

KeyValueCache::KeyValueCache(int64_t capacity, std::vector<int64_t> padding)
    : capacity_(capacity), padding_(std::move(padding)) {}

KeyValueCache* KeyValueCache::current() {
  const RunningUnit* const running = RunningUnit::find();
  KeyValueCache* const cache = running == nullptr ? nullptr : running->context().cache();
  return cache == nullptr || cache->suspended_ ? nullptr : cache;
}

bool KeyValueCache::has_padding() const {
  return std::any_of(padding_.begin(), padding_.end(), [](int64_t count) { return count > 0; });
}

void KeyValueCache::begin(int64_t positions) {
  running_ = positions;
  in_forward_.clear();
  if (length() > capacity_) capacity_ = std::max(2 * capacity_, length());
}

void KeyValueCache::end() {
  past_ += running_;
  running_ = 0;
  in_forward_.clear();
}

KeyValueCache::KeysValues KeyValueCache::append(const void* layer, const at::Tensor& keys,
                                                const at::Tensor& values) {
  if (keys.size(1) != running_)
    fail(WEFT_FAILED_PRECONDITION,
         "an attention layer adds keys of {} positions to the cache in a forward of {}; attention to another "
         "sequence keeps its keys with attend_source()",
         keys.size(1), running_);
  KeysValues& held = layers_[layer];
  const auto add = [&](at::Tensor& all, const at::Tensor& own) {
    if (!all.defined() || all.size(2) < length()) {
      const at::Tensor grown =
          at::empty({own.size(0), own.size(2), capacity_, own.size(3)}, own.options().requires_grad(false));
      if (past_ > 0) grown.narrow(2, 0, past_).copy_(all.narrow(2, 0, past_));
      all = grown;
    }
    all.narrow(2, past_, running_).copy_(own.transpose(1, 2));
    return all.narrow(2, 0, length());
  };
  const at::Tensor all_keys = add(held.keys, keys);
  return {all_keys, add(held.values, values)};
}

const KeyValueCache::KeysValues& KeyValueCache::source(const void* layer,
                                                       const std::function<KeysValues()>& make) {
  KeysValues& held = sources_[layer];
  if (!held.keys.defined()) {
    const KeysValues made = make();
    held = {made.keys.transpose(1, 2).contiguous(), made.values.transpose(1, 2).contiguous()};
  }
  return held;
}

at::Tensor KeyValueCache::positions(int64_t count, const at::Tensor& like) const {
  const at::Tensor columns = at::arange(count, like.options().dtype(at::kLong)).unsqueeze(0);
  if (!has_padding()) return columns;
  return (columns - on_device_of(like, at::tensor(padding_, at::kLong)).unsqueeze(1)).clamp_min_(0);
}

at::Tensor KeyValueCache::padding(const at::Tensor& like) {
  if (!has_padding()) return {};
  return by_key(this, [&](int64_t capacity) {
    const at::Tensor columns = at::arange(capacity, like.options().dtype(at::kLong)).view({1, 1, 1, -1});
    const at::Tensor first = on_device_of(like, at::tensor(padding_, at::kLong)).view({-1, 1, 1, 1});
    return additive_mask(columns.ge(first), like.scalar_type());
  });
}

at::Tensor KeyValueCache::by_key(const void* owner, const std::function<at::Tensor(int64_t capacity)>& make) {
  at::Tensor& all = by_key_[owner];
  if (!all.defined() || all.size(-1) < length()) all = make(capacity_);
  return all.narrow(-1, 0, length());
}

void KeyValueCache::select_rows(const std::vector<int64_t>& rows) {
  const at::Tensor index = at::tensor(rows, at::kLong);
  const auto selected = [&](const at::Tensor& all) { return all.index_select(0, on_device_of(all, index)); };
  for (auto* const held : {&layers_, &sources_})
    for (auto& [layer, both] : *held) both = {selected(both.keys), selected(both.values)};
  for (auto& [name, field] : kept_) field = selected(field);
  if (!padding_.empty()) {
    std::vector<int64_t> padding;
    for (const int64_t row : rows) padding.push_back(padding_[static_cast<size_t>(row)]);
    padding_ = std::move(padding);
  }
  by_key_.clear();
}

}  // namespace weft::nn
