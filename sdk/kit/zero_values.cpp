#include "weft/kit/zero_values.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

namespace weft::plugin::kit {

namespace {

ZeroFill fill_of(const ZeroValues::Bucket& bucket, int64_t capacity) {
  return {capacity, bucket.ranks.size(),
          ZeroFill::alignment_of(static_cast<int64_t>(c10::elementSize(bucket.dtype)))};
}

}  // namespace

void ZeroValues::build(const Training& training, int64_t capacity, uint32_t home) {
  home_ = home;
  owned_by_.resize(training.units().size());
  std::vector<Parameter> parameters = training.parameters();
  std::reverse(parameters.begin(), parameters.end());
  for (const Parameter& parameter : parameters) add(training, parameter, capacity);
  for (Bucket& bucket : buckets_) make(bucket, capacity);
  for (const Unit& unit : training.units()) {
    std::vector<size_t>& used = used_by_.emplace_back();
    for (const Parameter& parameter : unit.parameters())
      if (const auto found = places_.find(parameter.get()); found != places_.end())
        used.push_back(found->second.bucket);
  }
}

// Returns the last bucket with these dtypes and axes, or a new one if that one is full.
ZeroValues::Bucket& ZeroValues::open_bucket(const Training& training, const weft_param_info& info,
                                            int64_t capacity) {
  const at::ScalarType dtype = scalar_type(info.working_dtype), master = scalar_type(info.master_dtype);
  const auto last = std::find_if(buckets_.rbegin(), buckets_.rend(), [&](const Bucket& bucket) {
    return bucket.dtype == dtype && bucket.master_dtype == master && bucket.axes == info.gradient_axes;
  });
  if (last != buckets_.rend() && fill_of(*last, capacity).takes(last->size, info.count)) return *last;
  Bucket& opened = buckets_.emplace_back();
  opened.dtype = dtype;
  opened.master_dtype = master;
  opened.axes = info.gradient_axes;
  opened.ranks = NestedRanks::along(training, info.gradient_axes);
  return opened;
}

void ZeroValues::add(const Training& training, Parameter parameter, int64_t capacity) {
  const weft_param_info info = parameter.info();
  if (info.frozen) {
    frozen_.push_back(
        {parameter, allocate(WEFT_POOL_ACCELERATOR, info.count, scalar_type(info.working_dtype))});
    parameter.read(0, frozen_.back().values);
    parameter.bind(frozen_.back().values);
    return;
  }
  Bucket& bucket = open_bucket(training, info, capacity);
  const Place place = {static_cast<size_t>(&bucket - buckets_.data()), bucket.entries.size()};
  places_[parameter.get()] = place;
  // A gradient that pipeline stages share is not complete after the backward of its first unit.
  if (info.across_stages == 0) owned_by_[info.first_unit].push_back(place);
  bucket.entries.push_back({parameter, bucket.size, info.count});
  bucket.size = fill_of(bucket, capacity).append(bucket.size, info.count);
}

void ZeroValues::make(Bucket& bucket, int64_t capacity) {
  bucket.size = fill_of(bucket, capacity).close(bucket.size);
  bucket.values = allocate(WEFT_POOL_ACCELERATOR, bucket.size, bucket.dtype).zero_();
  const bool masters = bucket.master_dtype != bucket.dtype || home_ != WEFT_POOL_ACCELERATOR;
  if (masters)
    bucket.master = HomePart(home_, bucket.size / bucket.ranks.size(), bucket.master_dtype, bucket.dtype);
  for (const Entry& entry : bucket.entries) {
    const at::Tensor values = bucket.values.narrow(0, entry.begin, entry.count);
    const at::Tensor read = masters ? at::empty({entry.count}, bucket.master_dtype) : values;
    entry.parameter.read(0, read);
    entry.parameter.bind(values);
    if (!masters) continue;
    values.copy_(read);
    if (const OwnRange own = owned(bucket, entry); own.count > 0)
      copy_values(bucket.master.values.narrow(0, own.place, own.count), read.narrow(0, own.begin, own.count));
  }
  bucket.master.round();
}

OwnRange ZeroValues::owned(const Bucket& bucket, const Entry& entry) const {
  return own_range(bucket.ranks.begin_of_own(bucket.size), bucket.size / bucket.ranks.size(), entry.begin,
                   entry.count);
}

at::Tensor ZeroValues::rounded(const Bucket& bucket) const {
  const bool in_place = bucket.master.values.defined() && home_ == WEFT_POOL_ACCELERATOR;
  return in_place ? bucket.ranks.own(bucket.values) : bucket.master.rounded;
}

void ZeroValues::wait_for(Unit unit) const {
  for (const size_t bucket : used_by_[unit.index()]) buckets_[bucket].gather.wait();
}

void ZeroValues::wait() const {
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) bucket->gather.wait();
}

void ZeroValues::gather() {
  at::NoGradGuard no_grad;
  size_t levels = 0;
  for (const Bucket& bucket : buckets_) levels = std::max(levels, bucket.ranks.levels());
  for (size_t level = levels; level-- > 0;)
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
      const NestedRanks& ranks = bucket->ranks;
      if (level >= ranks.levels()) continue;
      bucket->gather.wait();  // for the previous level
      if (level + 1 == ranks.levels() && home_ != WEFT_POOL_ACCELERATOR)
        bucket->gather = transfer_to_accelerator([&] {
          copy_values(ranks.own(bucket->values), bucket->master.source());
          return ranks.gather(bucket->values, level);
        });
      else
        bucket->gather = ranks.gather(bucket->values, level);
    }
}

void ZeroValues::publish(const ShardSink& sink, const std::function<at::Tensor(size_t)>& sums) const {
  wait();  // the host may overwrite the owned parts, which are being all-gathered
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = buckets_[b];
    const at::Tensor own_values = bucket.ranks.own(bucket.values), gradients = sums(b);
    const at::Tensor& masters = bucket.master.values.defined() ? bucket.master.values : own_values;
    const at::Tensor working = rounded(bucket);
    for (const Entry& entry : bucket.entries)
      if (const OwnRange own = owned(bucket, entry); own.count > 0)
        sink.shard(entry.parameter, own.begin, masters.narrow(0, own.place, own.count),
                   gradients.defined() ? gradients.narrow(0, own.place, own.count) : at::Tensor(),
                   bucket.axes, 0,
                   working.defined() ? working.narrow(0, own.place, own.count) : at::Tensor());
  }
  for (const Frozen& frozen : frozen_) sink.shard(frozen.parameter, 0, frozen.values, at::Tensor(), 0);
}

}  // namespace weft::plugin::kit
