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
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "zero_values.hpp"

namespace weft {
inline namespace sdk_v0 {

struct ZeroBucketOptions {
  int64_t stage = 1;  // 1: a rank keeps all gradients of its own until they are zeroed; 2: sums of its part
  int64_t capacity = 12 << 20;                  // elements of a bucket; a larger parameter has one to itself
  std::optional<at::ScalarType> communication;  // what gradients travel as; none: as they are
  bool overlap_reduction = true;                // sums travel while backward goes on
  bool overlap_gather = false;                  // values travel until a unit that uses them goes forward
};

class ZeroBuckets {
 public:
  // Fills and binds all parameters. `ranks` lie along `axes`.
  void build(const Training& training, NestedRanks ranks, uint32_t axes, const ZeroBucketOptions& options) {
    axes_ = axes;
    options_ = options;
    values_.build(training, std::move(ranks), options.capacity);
    for (const ZeroValues::Bucket& layout : values_.buckets()) {
      Gradients& bucket = gradients_.emplace_back();
      bucket.layout = &layout;
      bucket.filled.resize(layout.entries.size());
      if (layout.size <= options.capacity) spare_elements_ = std::max(spare_elements_, layout.size);
    }
  }

  void before_forward(Unit unit) { values_.wait_for(unit); }

  // Before a backward. Without `synchronise`, which stage 2 cannot do, gradients stay on this rank.
  void begin(bool synchronise) {
    active_ = synchronise || ranks().size() == 1;
    if (summed_) keep_own_sums();
    summed_ = false;
    local_ = options_.stage == 1;
    next_ = done_ = 0;
    for (Gradients& bucket : gradients_) {
      bucket.missing = bucket.layout->entries.size();
      bucket.reached.assign(bucket.missing, false);
    }
  }

  void ready(Parameter parameter) {
    const ZeroValues::Place place = values_.place(parameter);
    Gradients& bucket = gradients_[place.bucket];
    collect(bucket, place.entry);
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
    for (Gradients& bucket : gradients_) bucket.missing = 0;
    start_complete();
    while (done_ < next_) advance();
    spare_.clear();
    summed_ = options_.stage == 1;
    local_ = false;
  }

  // Throws if gradients were left that no sum contains.
  void publish(const ShardSink& sink) const {
    if (local_ && ranks().size() > 1)
      throw Error(WEFT_FAILED_PRECONDITION,
                  "the last backward ran under no_sync, so its gradients were never summed over the ranks; "
                  "run the last backward of a step without it, or zero the gradients");
    values_.publish(sink, axes_, [this](size_t b) {
      const Gradients& bucket = gradients_[b];
      if (options_.stage == 2) return bucket.summed ? bucket.sums : at::Tensor();
      return summed_ ? ranks().own(bucket.flat) : at::Tensor();
    });
  }

  void values_changed() {
    values_.gather();
    if (!options_.overlap_gather) values_.wait();
  }

  void zero() {
    for (Gradients& bucket : gradients_) {
      bucket.summed = false;
      std::fill(bucket.filled.begin(), bucket.filled.end(), false);
      if (bucket.is_one_gradient()) bucket.flat.reset();
    }
    summed_ = local_ = false;
  }

  const ZeroValues& values() const { return values_; }

 private:
  struct Gradients {
    const ZeroValues::Bucket* layout = nullptr;
    std::vector<bool> filled;   // by parameter: there is something in its part of `flat`
    std::vector<bool> reached;  // by parameter: this backward has nothing more for it
    at::Tensor flat;            // stage 2: while gradients are collected and summed only
    at::Tensor sent;            // `flat` under way, where it travels as another dtype
    at::Tensor sums;            // stage 2: of the owned part, over all backwards since they were zeroed
    bool summed = false;        // stage 2: `sums` holds some
    bool first_sum = false;     // stage 2: the reduction under way writes to `sums` instead of adding
    size_t missing = 0;         // how many are not reached
    size_t level = 0;           // of the reduction under way
    Work reduction;

    bool is_one_gradient() const {
      return layout->entries.size() == 1 && layout->entries[0].count == layout->size;
    }
    const at::Tensor& travelling() const { return sent.defined() ? sent : flat; }
  };

  const NestedRanks& ranks() const { return values_.ranks(); }

  void reach(ZeroValues::Place place) {
    Gradients& bucket = gradients_[place.bucket];
    if (bucket.reached[place.entry]) return;
    bucket.reached[place.entry] = true;
    --bucket.missing;
    if (active_ && (options_.overlap_reduction || options_.stage == 2)) start_complete();
  }

  void collect(Gradients& bucket, size_t index) {
    at::NoGradGuard no_grad;
    const ZeroValues::Entry& entry = bucket.layout->entries[index];
    at::Tensor& gradient = entry.parameter.gradient();
    if (bucket.is_one_gradient() && !bucket.filled[index] && owns_its_memory(gradient)) {
      bucket.flat = gradient.detach().view(-1);
    } else {
      if (!bucket.flat.defined()) bucket.flat = memory_for(bucket);
      const at::Tensor place = bucket.flat.narrow(0, entry.begin, entry.count).view(gradient.sizes());
      bucket.filled[index] ? place.add_(gradient) : place.copy_(gradient);
    }
    bucket.filled[index] = true;
    gradient.reset();
  }

  static bool owns_its_memory(const at::Tensor& gradient) {
    return gradient.is_contiguous() && gradient.use_count() == 1 && gradient.storage().use_count() == 1 &&
           gradient.storage().nbytes() == gradient.nbytes();
  }

  // In stage 2 a bucket collects in what the one before the last has left: pages that are mapped.
  at::Tensor memory_for(const Gradients& bucket) {
    const int64_t size = bucket.layout->size;
    const at::ScalarType dtype = bucket.layout->dtype;
    if (options_.stage == 1 || size > spare_elements_) return at::empty({size}, dtype);
    const auto found = std::find_if(spare_.begin(), spare_.end(),
                                    [&](const at::Tensor& spare) { return spare.scalar_type() == dtype; });
    if (found == spare_.end()) return at::empty({spare_elements_}, dtype).narrow(0, 0, size);
    const at::Tensor memory = *found;
    spare_.erase(found);
    return memory.narrow(0, 0, size);
  }

  void release_memory(Gradients& bucket) {
    const auto elements =
        static_cast<int64_t>(bucket.flat.storage().nbytes() / c10::elementSize(bucket.layout->dtype));
    if (elements == spare_elements_) spare_.push_back(bucket.flat.as_strided({elements}, {1}));
    bucket.flat.reset();
    std::fill(bucket.filled.begin(), bucket.filled.end(), false);
  }

  // Sums are counted once in the next sum: by their owners.
  void keep_own_sums() {
    for (Gradients& bucket : gradients_) {
      const int64_t size = bucket.layout->size, begin = ranks().begin_of_own(size),
                    end = begin + size / ranks().size();
      bucket.flat.narrow(0, 0, begin).zero_();
      bucket.flat.narrow(0, end, size - end).zero_();
      std::fill(bucket.filled.begin(), bucket.filled.end(), true);
    }
  }

  void clear_unfilled(Gradients& bucket) {
    if (!bucket.flat.defined()) bucket.flat = memory_for(bucket);
    int64_t clear_from = 0;
    const auto clear_to = [&](int64_t end) {
      if (clear_from < end) bucket.flat.narrow(0, clear_from, end - clear_from).zero_();
    };
    for (size_t e = 0; e < bucket.filled.size(); ++e) {
      if (!bucket.filled[e]) continue;
      const ZeroValues::Entry& entry = bucket.layout->entries[e];
      clear_to(entry.begin);
      clear_from = entry.begin + entry.count;
    }
    clear_to(bucket.layout->size);
  }

  void start_complete() {
    at::NoGradGuard no_grad;
    while (next_ < gradients_.size() && gradients_[next_].missing == 0) {
      advance();
      start(gradients_[next_++]);
      while (!options_.overlap_reduction && done_ < next_) advance();
    }
  }

  void start(Gradients& bucket) {
    clear_unfilled(bucket);
    if (options_.communication && *options_.communication != bucket.layout->dtype)
      bucket.sent = bucket.flat.to(*options_.communication);
    bucket.level = 0;
    reduce(bucket);
  }

  void reduce(Gradients& bucket) {
    const bool to_sums = options_.stage == 2 && bucket.level + 1 == ranks().levels();
    if (to_sums && !bucket.sums.defined())
      bucket.sums = at::empty({bucket.layout->size / ranks().size()}, bucket.layout->dtype);
    bucket.first_sum = to_sums && !bucket.summed && !bucket.sent.defined();
    const at::Tensor& whole = bucket.travelling();
    bucket.reduction = ranks().reduce(whole, bucket.level,
                                      bucket.first_sum ? bucket.sums : ranks().part(whole, bucket.level + 1));
  }

  // Every bucket under way by one level.
  void advance() {
    for (size_t b = done_; b < next_; ++b) {
      Gradients& bucket = gradients_[b];
      bucket.reduction.wait();
      if (++bucket.level < ranks().levels()) {
        reduce(bucket);
      } else {
        finish(bucket);
        ++done_;
      }
    }
  }

  void finish(Gradients& bucket) {
    const at::Tensor own = ranks().own(bucket.travelling());
    if (options_.stage == 1) {
      if (bucket.sent.defined()) ranks().own(bucket.flat).copy_(own);
    } else {
      if (!bucket.first_sum) bucket.summed ? bucket.sums.add_(own) : bucket.sums.copy_(own);
      bucket.summed = true;
      release_memory(bucket);
    }
    bucket.sent.reset();
  }

  ZeroValues values_;
  std::vector<Gradients> gradients_;
  uint32_t axes_ = 0;
  ZeroBucketOptions options_;
  std::vector<at::Tensor> spare_;  // memory that finished buckets left, until end()
  int64_t spare_elements_ = 0;     // of each: the largest bucket that does not exceed the capacity
  size_t done_ = 0, next_ = 0;     // buckets [done_, next_) are under way
  bool active_ = false;            // in a backward that synchronises
  bool summed_ = false;            // stage 1: the owned parts are sums over all ranks
  bool local_ = false;             // stage 1: there are gradients that no sum contains
};

}  // namespace sdk_v0
}  // namespace weft
