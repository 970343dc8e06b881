// Parameters in flat buckets that ranks update in parts: the side of ZeRO (Rajbhandari et al., 2020) that
// holds values. zero_buckets.hpp has the gradients.
//
// A bucket is one buffer that its parameters are views of; each rank owns an equal part, so that updated
// parts are gathered in place. Where the optimizer updates the dtype that the layers compute with, and on the
// accelerator as they do, the masters are the owned part itself, not a copy.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nested_ranks.hpp"
#include "pools.hpp"

namespace weft {
inline namespace sdk_v0 {

// How parameters fill buckets, in reverse order: a bucket closes before it would exceed `capacity` elements;
// a larger parameter has one to itself. Parameters and parts begin at multiples of 64 bytes, where fresh
// tensors would: kernels are as fast, and as reproducible, on them.
struct ZeroFill {
  int64_t capacity, ranks, alignment;  // in elements

  static int64_t alignment_of(int64_t element_bytes) { return 64 / element_bytes; }
  bool takes(int64_t size, int64_t count) const { return size == 0 || size + count <= capacity; }
  // The bucket after a parameter, and when it is closed.
  int64_t append(int64_t size, int64_t count) const { return round_up(size + count, alignment); }
  int64_t close(int64_t size) const { return round_up(size, alignment * ranks); }

 private:
  static int64_t round_up(int64_t count, int64_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
  }
};

class ZeroValues {
 public:
  struct Entry {
    Parameter parameter;
    int64_t begin, count;  // in the bucket
  };
  struct Bucket {
    at::ScalarType dtype, master_dtype;
    std::vector<Entry> entries;
    int64_t size = 0;  // with padding: a multiple of 64 bytes for each rank
    at::Tensor values;
    at::Tensor master;  // of the owned part, where it is not a part of `values`
    mutable Work gather;
  };
  struct Place {
    size_t bucket, entry;
  };

  // Fills and binds all parameters. Frozen ones are left whole on every rank. `home`: the pool of the
  // masters.
  void build(const Training& training, NestedRanks ranks, int64_t capacity, uint32_t home) {
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

  const NestedRanks& ranks() const { return ranks_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  Place place(Parameter parameter) const { return places_.at(parameter.get()); }
  // The parameters that `unit` owns: its backward completes their gradients.
  const std::vector<Place>& owned_by(Unit unit) const { return owned_by_[unit.index()]; }

  // Waits for the values that `unit` uses.
  void wait_for(Unit unit) const {
    for (const size_t bucket : used_by_[unit.index()]) buckets_[bucket].gather.wait();
  }
  void wait() const {
    for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) bucket->gather.wait();
  }

  // Starts to gather what all ranks wrote to their parts, in the order in which units use it.
  void gather() {
    at::NoGradGuard no_grad;
    for (Bucket& bucket : buckets_)
      if (bucket.master.defined()) copy_values(ranks_.own(bucket.values), bucket.master);
    for (size_t level = ranks_.levels(); level-- > 0;)
      for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
        bucket->gather.wait();  // of the level before
        bucket->gather = ranks_.gather(bucket->values, level);
      }
  }

  // `sums(index)`: the gradients of the owned part of a bucket, or none.
  template <class Sums>
  void publish(const ShardSink& sink, uint32_t axes, const Sums& sums) const {
    wait();  // the owned parts, which are under way, may be overwritten now
    for (size_t b = 0; b < buckets_.size(); ++b) {
      const Bucket& bucket = buckets_[b];
      const at::Tensor masters = bucket.master.defined() ? bucket.master : ranks_.own(bucket.values);
      const at::Tensor gradients = sums(b);
      for (const Entry& entry : bucket.entries)
        if (const Owned own = owned(bucket, entry); own.count > 0)
          sink.shard(entry.parameter, own.begin, masters.narrow(0, own.place, own.count),
                     gradients.defined() ? gradients.narrow(0, own.place, own.count) : at::Tensor(), axes);
    }
    for (const Frozen& frozen : frozen_) sink.shard(frozen.parameter, 0, frozen.values, at::Tensor(), 0);
  }

 private:
  struct Frozen {
    Parameter parameter;
    at::Tensor values;
  };

  ZeroFill fill(at::ScalarType dtype, int64_t capacity) const {
    return {capacity, ranks_.size(), ZeroFill::alignment_of(static_cast<int64_t>(c10::elementSize(dtype)))};
  }

  void add(Parameter parameter, int64_t capacity) {
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

  void make(Bucket& bucket, int64_t capacity) {
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
      if (const Owned own = owned(bucket, entry); own.count > 0)
        copy_values(bucket.master.narrow(0, own.place, own.count), read.narrow(0, own.begin, own.count));
    }
  }

  // What this rank owns of a parameter: [begin, begin + count), at `place` in the owned part.
  struct Owned {
    int64_t begin, place, count;
  };
  Owned owned(const Bucket& bucket, const Entry& entry) const {
    const int64_t begin = ranks_.begin_of_own(bucket.size), end = begin + bucket.size / ranks_.size();
    const int64_t from = std::max(begin, entry.begin), to = std::min(end, entry.begin + entry.count);
    return {from - entry.begin, from - begin, to - from};
  }

  NestedRanks ranks_;
  uint32_t home_ = WEFT_POOL_ACCELERATOR;
  std::vector<Bucket> buckets_;
  std::vector<Frozen> frozen_;
  std::unordered_map<weft_param*, Place> places_;
  std::vector<std::vector<size_t>> used_by_;  // buckets by unit
  std::vector<std::vector<Place>> owned_by_;  // parameters by unit
};

}  // namespace sdk_v0
}  // namespace weft
