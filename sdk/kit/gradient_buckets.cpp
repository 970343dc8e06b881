#include "weft/kit/gradient_buckets.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "weft/torch/pools.hpp"

namespace weft::plugin::kit {

void GradientBuckets::build(const Training& training, const std::vector<Parameter>& parameters,
                            GradientBucketOptions options) {
  samples_ = training.samples();
  options_ = options;
  std::map<std::pair<at::ScalarType, uint32_t>, int64_t> limits;
  for (const Parameter& parameter : parameters) {
    const weft_param_info info = parameter.info();
    if (info.frozen) continue;
    const at::ScalarType dtype = scalar_type(info.working_dtype);
    int64_t& limit =
        limits.try_emplace({dtype, info.gradient_axes}, std::min(options.first_bytes, options.capacity_bytes))
            .first->second;
    Bucket& bucket = open_bucket(dtype, info.gradient_axes);
    bucket.entries.push_back({parameter, text(info.name), info.index, bucket.size, info.count, false, true});
    bucket.size += info.count;
    if (bucket.size * static_cast<int64_t>(c10::elementSize(dtype)) >= limit) {
      bucket.closed = true;
      limit = options.capacity_bytes;
    }
  }
  std::reverse(buckets_.begin(), buckets_.end());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b].flat = allocate(WEFT_POOL_ACCELERATOR, buckets_[b].size, buckets_[b].dtype).zero_();
    buckets_[b].ranks = training.communicator(buckets_[b].axes);
    for (size_t e = 0; e < buckets_[b].entries.size(); ++e)
      places_[buckets_[b].entries[e].parameter.get()] = {b, e};
  }
}

GradientBuckets::Bucket& GradientBuckets::open_bucket(at::ScalarType dtype, uint32_t axes) {
  for (Bucket& bucket : buckets_)
    if (bucket.dtype == dtype && bucket.axes == axes && !bucket.closed) return bucket;
  Bucket& opened = buckets_.emplace_back();
  opened.dtype = dtype;
  opened.axes = axes;
  return opened;
}

void GradientBuckets::begin(bool synchronise) {
  if (summed_)
    for_each([](Bucket& bucket, Entry& entry) {
      if (bucket.ranks.rank() != 0) entry.parameter.gradient().reset();
    });
  summed_ = false;
  local_ = true;
  active_ = synchronise;
  if (!synchronise) return;
  next_ = 0;
  for (Bucket& bucket : buckets_) {
    bucket.missing = bucket.entries.size();
    for (Entry& entry : bucket.entries) {
      // This rank has no element of a parameter that the plan gave to other ranks.
      entry.ready = entry.count == 0 || (options_.static_graph && graph_known_ && !entry.used);
      bucket.missing -= entry.ready ? 1 : 0;
    }
  }
}

void GradientBuckets::ready(Parameter parameter) {
  const Place place = places_.at(parameter.get());
  Bucket& bucket = buckets_[place.bucket];
  Entry& entry = bucket.entries[place.entry];
  if (entry.count == 0) return;
  if (options_.static_graph && graph_known_ && !entry.used)
    return faults_.note(entry.index, GraphFaults::kNewlyUsed);
  if (active_ || options_.views) collect(bucket, entry);
  if (!active_) return;
  entry.ready = true;
  if (--bucket.missing == 0) start_complete();
}

void GradientBuckets::end() {
  if (!active_) return;
  active_ = false;
  const bool checked = options_.static_graph ? graph_known_ : !options_.find_unused;
  for_each([&](Bucket& bucket, Entry& entry) {
    if (options_.static_graph && !graph_known_)
      entry.used = entry.ready || entry.parameter.gradient().defined();
    if (!entry.ready) finish_unused(bucket, entry, checked);
  });
  graph_known_ = true;
  for (Bucket& bucket : buckets_) bucket.missing = 0;
  start_complete();
  if (checked) faults_.start(samples_);
  for (Bucket& bucket : buckets_) finish(bucket);
  if (checked) faults_.finish([this](int64_t index) { return name_of(index); });
  summed_ = true;
  local_ = false;
}

void GradientBuckets::zero(const std::vector<Parameter>& parameters) {
  for (const Parameter& parameter : parameters) parameter.gradient().reset();
  summed_ = local_ = false;
}

std::vector<std::vector<std::string>> GradientBuckets::layout() const {
  std::vector<std::vector<std::string>> names;
  for (const Bucket& bucket : buckets_) {
    names.emplace_back();
    for (const Entry& entry : bucket.entries) names.back().push_back(entry.name);
  }
  return names;
}

std::string GradientBuckets::name_of(int64_t index) const {
  for (const Bucket& bucket : buckets_)
    for (const Entry& entry : bucket.entries)
      if (entry.index == index) return entry.name;
  return "";
}

void GradientBuckets::collect(Bucket& bucket, Entry& entry) {
  at::NoGradGuard no_grad;
  at::Tensor& gradient = entry.parameter.gradient();
  const at::Tensor slice = bucket.flat.narrow(0, entry.begin, entry.count).view(gradient.sizes());
  if (gradient.is_alias_of(slice)) return;
  slice.copy_(gradient);
  if (options_.views) gradient = slice;
}

void GradientBuckets::finish_unused(Bucket& bucket, Entry& entry, bool checked) {
  if (entry.parameter.gradient().defined()) return collect(bucket, entry);  // from an earlier micro-batch
  if (checked)
    faults_.note(entry.index, options_.static_graph ? GraphFaults::kNoLongerUsed : GraphFaults::kUnused);
  bucket.flat.narrow(0, entry.begin, entry.count).zero_();
}

void GradientBuckets::start_complete() {
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
    Bucket& bucket = buckets_[next_];
    if (options_.static_graph && graph_known_)
      for (const Entry& entry : bucket.entries)
        if (!entry.used) bucket.flat.narrow(0, entry.begin, entry.count).zero_();
    bucket.work = bucket.ranks.all_reduce(bucket.flat);
  }
}

void GradientBuckets::finish(Bucket& bucket) {
  at::NoGradGuard no_grad;
  bucket.work.wait();
  for (Entry& entry : bucket.entries) {
    at::Tensor& gradient = entry.parameter.gradient();
    const at::Tensor slice =
        bucket.flat.narrow(0, entry.begin, entry.count).view(entry.parameter.tensor().sizes());
    if (options_.views || !gradient.defined())
      gradient = options_.views ? slice : slice.clone();
    else
      gradient.copy_(slice);
  }
}

}  // namespace weft::plugin::kit
