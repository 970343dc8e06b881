#include "weft/kit/zero_buckets.hpp"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

namespace weft::plugin::kit {

void ZeroBuckets::build(const Training& training, const ZeroBucketOptions& options) {
  options_ = options;
  values_.build(training, options.capacity, options.home);
  int64_t largest = 0;  // elements of the largest bucket that is within the capacity
  for (const ZeroValues::Bucket& layout : values_.buckets()) {
    ZeroGradients& bucket = gradients_.emplace_back();
    bucket.layout = &layout;
    bucket.filled.resize(layout.entries.size());
    if (layout.size <= options.capacity) largest = std::max(largest, layout.size);
  }
  // In stage 2 a bucket reuses the buffer that an earlier bucket has released.
  if (options.stage == 2) memory_.keep_spares_of(largest);
}

bool ZeroBuckets::is_alone() const {
  return std::all_of(values_.buckets().begin(), values_.buckets().end(),
                     [](const ZeroValues::Bucket& bucket) { return bucket.ranks.size() == 1; });
}

void ZeroBuckets::begin(bool synchronise) {
  active_ = synchronise || is_alone();
  if (summed_)
    for (ZeroGradients& bucket : gradients_) bucket.keep_own_sums(bucket.layout->ranks);
  summed_ = false;
  local_ = options_.stage == 1;
  next_ = done_ = 0;
  for (ZeroGradients& bucket : gradients_) {
    bucket.missing = bucket.layout->entries.size();
    bucket.reached.assign(bucket.missing, false);
  }
}

void ZeroBuckets::ready(Parameter parameter) {
  const ZeroValues::Place place = values_.place(parameter);
  gradients_[place.bucket].collect(place.entry, memory_);
  reach(place);
}

void ZeroBuckets::unit_done(Unit unit) {
  for (const ZeroValues::Place& place : values_.owned_by(unit)) reach(place);
}

void ZeroBuckets::end() {
  if (!active_) return;
  at::NoGradGuard no_grad;
  for (ZeroGradients& bucket : gradients_) bucket.missing = 0;
  start_complete();
  while (done_ < next_) advance();
  release_saved();
  memory_.free();
  summed_ = keeps_whole();
  local_ = false;
}

void ZeroBuckets::publish(const ShardSink& sink) const {
  if (local_ && !is_alone())
    throw Error(WEFT_FAILED_PRECONDITION,
                "the last backward ran under no_sync, so its gradients were never summed over the ranks; "
                "run the last backward of a step without it, or zero the gradients");
  values_.publish(sink, [this](size_t b) {
    const ZeroGradients& bucket = gradients_[b];
    if (!keeps_whole()) return bucket.summed ? bucket.sums : at::Tensor();
    return summed_ ? bucket.layout->ranks.own(bucket.flat) : at::Tensor();
  });
}

void ZeroBuckets::values_changed() {
  values_.gather();
  if (!options_.overlap_gather) values_.wait();
}

void ZeroBuckets::zero() {
  for (ZeroGradients& bucket : gradients_) {
    bucket.summed = false;
    std::fill(bucket.filled.begin(), bucket.filled.end(), false);
    if (bucket.is_one_gradient()) bucket.flat.reset();
  }
  summed_ = local_ = false;
}

void ZeroBuckets::reach(ZeroValues::Place place) {
  ZeroGradients& bucket = gradients_[place.bucket];
  if (bucket.reached[place.entry]) return;
  bucket.reached[place.entry] = true;
  --bucket.missing;
  if (active_ && (options_.overlap_reduction || options_.stage == 2)) start_complete();
}

void ZeroBuckets::start_complete() {
  at::NoGradGuard no_grad;
  while (next_ < gradients_.size() && gradients_[next_].missing == 0) {
    advance();
    start(gradients_[next_++]);
    while (!options_.overlap_reduction && done_ < next_) advance();
  }
}

void ZeroBuckets::start(ZeroGradients& bucket) {
  bucket.clear_unfilled(memory_);
  if (options_.communication && *options_.communication != bucket.layout->dtype)
    bucket.sent = bucket.flat.to(*options_.communication);
  bucket.level = 0;
  reduce(bucket);
}

void ZeroBuckets::reduce(ZeroGradients& bucket) {
  const NestedRanks& ranks = bucket.layout->ranks;
  const bool to_sums = options_.stage == 2 && !offloads() && bucket.level + 1 == ranks.levels();
  bucket.first_sum = to_sums && !bucket.summed && !bucket.sent.defined();
  if (bucket.first_sum && !bucket.sums.defined())
    bucket.sums = allocate(options_.home, bucket.layout->size / ranks.size(), bucket.layout->dtype);
  const at::Tensor& whole = bucket.travelling();
  bucket.reduction =
      ranks.reduce(whole, bucket.level, bucket.first_sum ? bucket.sums : ranks.part(whole, bucket.level + 1));
}

// Waits for the current level of every bucket that is being reduced, and starts its next level.
void ZeroBuckets::advance() {
  for (size_t b = done_; b < next_; ++b) {
    ZeroGradients& bucket = gradients_[b];
    if (bucket.is_finished()) continue;  // an earlier bucket has more levels
    bucket.reduction.wait();
    ++bucket.level;
    bucket.is_finished() ? finish(bucket) : reduce(bucket);
  }
  while (done_ < next_ && gradients_[done_].is_finished()) ++done_;
}

void ZeroBuckets::finish(ZeroGradients& bucket) {
  const NestedRanks& ranks = bucket.layout->ranks;
  const at::Tensor own = ranks.own(bucket.travelling());
  if (keeps_whole()) {
    if (bucket.sent.defined()) ranks.own(bucket.flat).copy_(own);
  } else {
    release_saved();
    bucket.take_sum(own, options_.home);
    if (bucket.saving)
      saving_ = &bucket;
    else
      bucket.release(memory_);
  }
  bucket.sent.reset();
}

// Frees the gradients of the bucket before, whose sum is copied while backward goes on.
void ZeroBuckets::release_saved() {
  if (saving_ != nullptr) std::exchange(saving_, nullptr)->release(memory_);
}

}  // namespace weft::plugin::kit
