// Parameters and gradients in buckets that ranks own in parts: stages 1 and 2 of ZeRO (Rajbhandari et al.,
// 2020, sections 5.1 and 5.2). Shared by the strategies that keep whole parameters on every rank but update
// one part of them each.
//
// Gradients are reduce-scattered in place in the layout of the values, so nothing is copied but each gradient
// into its bucket, and one that is the whole bucket not even there.
//
// Buckets are fixed when they are built and always start in that order: backward may complete them
// differently on each rank, and collectives must be issued identically everywhere. One is summed while the
// next is collected.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "zero_gradients.hpp"

namespace weft {
inline namespace sdk_v0 {

struct ZeroBucketOptions {
  int64_t stage = 1;  // 1: a rank keeps all gradients of a backward until its end; 2: sums of its part
  int64_t capacity = 12 << 20;                  // elements of a bucket; a larger parameter has one to itself
  std::optional<at::ScalarType> communication;  // what gradients travel as; none: as they are
  bool overlap_reduction = true;                // sums travel while backward goes on
  bool overlap_gather = false;                  // values travel until a unit that uses them goes forward
  uint32_t home = WEFT_POOL_ACCELERATOR;        // the pool of masters and summed gradients
};

class ZeroBuckets {
 public:
  // Fills and binds all parameters. `ranks` lie along `axes`.
  void build(const Training& training, NestedRanks ranks, uint32_t axes, const ZeroBucketOptions& options) {
    axes_ = axes;
    options_ = options;
    values_.build(training, std::move(ranks), options.capacity, options.home);
    int64_t largest = 0;  // that does not exceed the capacity
    for (const ZeroValues::Bucket& layout : values_.buckets()) {
      ZeroGradients& bucket = gradients_.emplace_back();
      bucket.layout = &layout;
      bucket.filled.resize(layout.entries.size());
      if (layout.size <= options.capacity) largest = std::max(largest, layout.size);
    }
    // In stage 2 a bucket collects in what the one before the last has left.
    if (options.stage == 2) memory_.keep_spares_of(largest);
  }

  void before_forward(Unit unit) { values_.wait_for(unit); }

  // Before a backward. Without `synchronise`, which stage 2 cannot do, gradients stay on this rank.
  void begin(bool synchronise) {
    active_ = synchronise || ranks().size() == 1;
    if (summed_)
      for (ZeroGradients& bucket : gradients_) bucket.keep_own_sums(ranks());
    summed_ = false;
    local_ = options_.stage == 1;
    next_ = done_ = 0;
    for (ZeroGradients& bucket : gradients_) {
      bucket.missing = bucket.layout->entries.size();
      bucket.reached.assign(bucket.missing, false);
    }
  }

  void ready(Parameter parameter) {
    const ZeroValues::Place place = values_.place(parameter);
    gradients_[place.bucket].collect(place.entry, memory_);
    reach(place);
  }

  // In a backward through one forward: what `unit` owns and got no gradient gets none any more.
  void unit_done(Unit unit) {
    for (const ZeroValues::Place& place : values_.owned_by(unit)) reach(place);
  }

  // After a backward: starts what is left and waits for all. What got no gradient counts as zero.
  void end() {
    if (!active_) return;
    at::NoGradGuard no_grad;
    for (ZeroGradients& bucket : gradients_) bucket.missing = 0;
    start_complete();
    while (done_ < next_) advance();
    memory_.free();
    summed_ = keeps_whole();
    local_ = false;
  }

  // Throws if gradients were left that no sum contains.
  void publish(const ShardSink& sink) const {
    if (local_ && ranks().size() > 1)
      throw Error(WEFT_FAILED_PRECONDITION,
                  "the last backward ran under no_sync, so its gradients were never summed over the ranks; "
                  "run the last backward of a step without it, or zero the gradients");
    values_.publish(sink, axes_, [this](size_t b) {
      const ZeroGradients& bucket = gradients_[b];
      if (!keeps_whole()) return bucket.summed ? bucket.sums : at::Tensor();
      return summed_ ? ranks().own(bucket.flat) : at::Tensor();
    });
  }

  void values_changed() {
    values_.gather();
    if (!options_.overlap_gather) values_.wait();
  }

  void zero() {
    for (ZeroGradients& bucket : gradients_) {
      bucket.summed = false;
      std::fill(bucket.filled.begin(), bucket.filled.end(), false);
      if (bucket.is_one_gradient()) bucket.flat.reset();
    }
    summed_ = local_ = false;
  }

  const ZeroValues& values() const { return values_; }

 private:
  const NestedRanks& ranks() const { return values_.ranks(); }
  bool offloads() const { return options_.home != WEFT_POOL_ACCELERATOR; }
  // The summed gradients stay in their bucket, where the next backwards add to them.
  bool keeps_whole() const { return options_.stage == 1 && !offloads(); }

  void reach(ZeroValues::Place place) {
    ZeroGradients& bucket = gradients_[place.bucket];
    if (bucket.reached[place.entry]) return;
    bucket.reached[place.entry] = true;
    --bucket.missing;
    if (active_ && (options_.overlap_reduction || options_.stage == 2)) start_complete();
  }

  void start_complete() {
    at::NoGradGuard no_grad;
    while (next_ < gradients_.size() && gradients_[next_].missing == 0) {
      advance();
      start(gradients_[next_++]);
      while (!options_.overlap_reduction && done_ < next_) advance();
    }
  }

  void start(ZeroGradients& bucket) {
    bucket.clear_unfilled(memory_);
    if (options_.communication && *options_.communication != bucket.layout->dtype)
      bucket.sent = bucket.flat.to(*options_.communication);
    bucket.level = 0;
    reduce(bucket);
  }

  void reduce(ZeroGradients& bucket) {
    const bool to_sums = options_.stage == 2 && !offloads() && bucket.level + 1 == ranks().levels();
    bucket.first_sum = to_sums && !bucket.summed && !bucket.sent.defined();
    if (bucket.first_sum && !bucket.sums.defined())
      bucket.sums = allocate(options_.home, bucket.layout->size / ranks().size(), bucket.layout->dtype);
    const at::Tensor& whole = bucket.travelling();
    bucket.reduction = ranks().reduce(whole, bucket.level,
                                      bucket.first_sum ? bucket.sums : ranks().part(whole, bucket.level + 1));
  }

  // Every bucket under way by one level.
  void advance() {
    for (size_t b = done_; b < next_; ++b) {
      ZeroGradients& bucket = gradients_[b];
      bucket.reduction.wait();
      if (++bucket.level < ranks().levels()) {
        reduce(bucket);
      } else {
        finish(bucket);
        ++done_;
      }
    }
  }

  void finish(ZeroGradients& bucket) {
    const at::Tensor own = ranks().own(bucket.travelling());
    if (keeps_whole()) {
      if (bucket.sent.defined()) ranks().own(bucket.flat).copy_(own);
    } else {
      bucket.take_sum(own, options_.home);
      bucket.release(memory_);
    }
    bucket.sent.reset();
  }

  ZeroValues values_;
  std::vector<ZeroGradients> gradients_;
  uint32_t axes_ = 0;
  ZeroBucketOptions options_;
  GradientMemory memory_;
  size_t done_ = 0, next_ = 0;  // buckets [done_, next_) are under way
  bool active_ = false;         // in a backward that synchronises
  bool summed_ = false;         // stage 1: the owned parts are sums over all ranks
  bool local_ = false;          // stage 1: there are gradients that no sum contains
};

}  // namespace sdk_v0
}  // namespace weft
