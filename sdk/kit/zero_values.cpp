#include "weft/kit/zero_values.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

namespace weft::kit {

void ZeroValues::build(const Training& training, NestedRanks ranks, int64_t capacity, uint32_t home) {
  ranks_ = std::move(ranks);
  home_ = home;
  owned_by_.resize(training.units().size());
  std::vector<Parameter> parameters = training.parameters();
  std::reverse(parameters.begin(), parameters.end());
  for (const Parameter& parameter : parameters) add(parameter, capacity);
  for (Bucket& bucket : buckets_) make(bucket, capacity);
  for (const Unit& unit : training.units()) {
    std::vector<size_t>& used = used_by_.emplace_back();
    for (const Parameter& parameter : unit.parameters())
      if (const auto found = places_.find(parameter.get()); found != places_.end())
        used.push_back(found->second.bucket);
  }
}

ZeroFill ZeroValues::fill(at::ScalarType dtype, int64_t capacity) const {
  return {capacity, ranks_.size(), ZeroFill::alignment_of(static_cast<int64_t>(c10::elementSize(dtype)))};
}

void ZeroValues::add(Parameter parameter, int64_t capacity) {
  const weft_param_info info = parameter.info();
  const at::ScalarType dtype = scalar_type(info.working_dtype), master = scalar_type(info.master_dtype);
  if (info.frozen) {
    frozen_.push_back({parameter, allocate(WEFT_POOL_ACCELERATOR, info.count, dtype)});
    parameter.read(0, frozen_.back().values);
    parameter.bind(frozen_.back().values);
    return;
  }
  const ZeroFill rule = fill(dtype, capacity);
  if (buckets_.empty() || buckets_.back().dtype != dtype || buckets_.back().master_dtype != master ||
      !rule.takes(buckets_.back().size, info.count)) {
    buckets_.emplace_back();
    buckets_.back().dtype = dtype;
    buckets_.back().master_dtype = master;
  }
  Bucket& bucket = buckets_.back();
  places_[parameter.get()] = {buckets_.size() - 1, bucket.entries.size()};
  owned_by_[info.first_unit].push_back({buckets_.size() - 1, bucket.entries.size()});
  bucket.entries.push_back({parameter, bucket.size, info.count});
  bucket.size = rule.append(bucket.size, info.count);
}

void ZeroValues::make(Bucket& bucket, int64_t capacity) {
  bucket.size = fill(bucket.dtype, capacity).close(bucket.size);
  bucket.values = allocate(WEFT_POOL_ACCELERATOR, bucket.size, bucket.dtype).zero_();
  const bool masters = bucket.master_dtype != bucket.dtype || home_ != WEFT_POOL_ACCELERATOR;
  if (masters) bucket.master = allocate(home_, bucket.size / ranks_.size(), bucket.master_dtype).zero_();
  for (const Entry& entry : bucket.entries) {
    const at::Tensor values = bucket.values.narrow(0, entry.begin, entry.count);
    const at::Tensor read = masters ? at::empty({entry.count}, bucket.master_dtype) : values;
    entry.parameter.read(0, read);
    entry.parameter.bind(values);
    if (!masters) continue;
    values.copy_(read);
    if (const OwnRange own = owned(bucket, entry); own.count > 0)
      copy_values(bucket.master.narrow(0, own.place, own.count), read.narrow(0, own.begin, own.count));
  }
}

OwnRange ZeroValues::owned(const Bucket& bucket, const Entry& entry) const {
  return own_range(ranks_.begin_of_own(bucket.size), bucket.size / ranks_.size(), entry.begin, entry.count);
}

void ZeroValues::wait_for(Unit unit) const {
  for (const size_t bucket : used_by_[unit.index()]) buckets_[bucket].gather.wait();
}

void ZeroValues::wait() const {
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) bucket->gather.wait();
}

void ZeroValues::gather() {
  at::NoGradGuard no_grad;
  for (Bucket& bucket : buckets_)
    if (bucket.master.defined()) copy_values(ranks_.own(bucket.values), bucket.master);
  for (size_t level = ranks_.levels(); level-- > 0;)
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      bucket->gather.wait();  // of the level before
      bucket->gather = ranks_.gather(bucket->values, level);
    }
}

void ZeroValues::publish(const ShardSink& sink, uint32_t axes,
                         const std::function<at::Tensor(size_t)>& sums) const {
  wait();  // the owned parts, which are under way, may be overwritten now
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    const at::Tensor masters = bucket.master.defined() ? bucket.master : ranks_.own(bucket.values);
    const at::Tensor gradients = sums(b);
    for (const Entry& entry : bucket.entries)
      if (const OwnRange own = owned(bucket, entry); own.count > 0)
        sink.shard(entry.parameter, own.begin, masters.narrow(0, own.place, own.count),
                   gradients.defined() ? gradients.narrow(0, own.place, own.count) : at::Tensor(), axes);
  }
  for (const Frozen& frozen : frozen_) sink.shard(frozen.parameter, 0, frozen.values, at::Tensor(), 0);
}

}  // namespace weft::kit
