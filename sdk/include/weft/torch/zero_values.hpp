// Parameters in flat buckets that ranks update in parts: the side of ZeRO (Rajbhandari et al., 2020) that
// holds values. zero_buckets.hpp has the gradients.
//
// A bucket is one buffer that its parameters are views of; each rank owns an equal part, so that updated
// parts are gathered in place. Where the optimizer updates the dtype that the layers compute with, the
// masters are the owned part itself, not a copy.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nested_ranks.hpp"

namespace weft {
inline namespace sdk_v0 {

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
    at::Tensor master;  // of the owned part, where its dtype is not that of `values`
    mutable Work gather;
  };
  struct Place {
    size_t bucket, entry;
  };

  // Fills and binds all parameters, in reverse order: a bucket closes before it would exceed `capacity`
  // elements; a larger parameter has one to itself. Frozen ones are left whole on every rank.
  void build(const Training& training, NestedRanks ranks, int64_t capacity) {
    ranks_ = std::move(ranks);
    std::vector<Parameter> parameters = training.parameters();
    std::reverse(parameters.begin(), parameters.end());
    for (const Parameter& parameter : parameters) add(parameter, capacity);
    for (Bucket& bucket : buckets_) allocate(bucket);
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
    for (const Frozen& frozen : frozen_)
      if (!frozen.master.is_alias_of(frozen.values)) frozen.values.copy_(frozen.master);
    for (Bucket& bucket : buckets_)
      if (bucket.master.defined()) ranks_.own(bucket.values).copy_(bucket.master);
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
      for_each_owned(bucket, [&](Parameter parameter, int64_t begin, int64_t place, int64_t count) {
        sink.shard(parameter, begin, masters.narrow(0, place, count),
                   gradients.defined() ? gradients.narrow(0, place, count) : at::Tensor(), axes);
      });
    }
    for (const Frozen& frozen : frozen_) sink.shard(frozen.parameter, 0, frozen.master, at::Tensor(), 0);
  }

 private:
  // Parameters and parts begin where fresh tensors would: kernels are as fast, and as reproducible, on them.
  static constexpr int64_t kAlignmentBytes = 64;

  struct Frozen {
    Parameter parameter;
    at::Tensor values, master;  // the same where their dtypes are
  };

  static int64_t round_up(int64_t count, int64_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
  }
  static int64_t alignment(at::ScalarType dtype) {
    return kAlignmentBytes / static_cast<int64_t>(c10::elementSize(dtype));
  }

  void add(Parameter parameter, int64_t capacity) {
    const weft_param_info info = parameter.info();
    const at::ScalarType dtype = scalar_type(info.working_dtype), master = scalar_type(info.master_dtype);
    if (info.frozen) return add_frozen(parameter, info.count, dtype, master);
    if (buckets_.empty() || buckets_.back().dtype != dtype || buckets_.back().master_dtype != master ||
        buckets_.back().size + info.count > capacity) {
      buckets_.emplace_back();
      buckets_.back().dtype = dtype;
      buckets_.back().master_dtype = master;
    }
    Bucket& bucket = buckets_.back();
    places_[parameter.get()] = {buckets_.size() - 1, bucket.entries.size()};
    bucket.entries.push_back({parameter, bucket.size, info.count});
    bucket.size = round_up(bucket.size + info.count, alignment(dtype));
  }

  void add_frozen(Parameter parameter, int64_t count, at::ScalarType dtype, at::ScalarType master) {
    Frozen frozen{parameter, at::empty({count}, dtype), {}};
    parameter.read(0, frozen.values);
    parameter.bind(frozen.values);
    frozen.master = frozen.values.to(master);
    frozen_.push_back(frozen);
  }

  void allocate(Bucket& bucket) {
    bucket.size = round_up(bucket.size, alignment(bucket.dtype) * ranks_.size());
    bucket.values = at::zeros({bucket.size}, bucket.dtype);
    for (const Entry& entry : bucket.entries) {
      const at::Tensor values = bucket.values.narrow(0, entry.begin, entry.count);
      entry.parameter.read(0, values);
      entry.parameter.bind(values);
    }
    if (bucket.master_dtype == bucket.dtype) return;
    bucket.master = at::zeros({bucket.size / ranks_.size()}, bucket.master_dtype);
    for_each_owned(bucket, [&](Parameter parameter, int64_t begin, int64_t place, int64_t count) {
      parameter.read(begin, bucket.master.narrow(0, place, count));
    });
  }

  // action(parameter, begin in the parameter, begin in the owned part, count)
  template <class Action>
  void for_each_owned(const Bucket& bucket, const Action& action) const {
    const int64_t begin = ranks_.begin_of_own(bucket.size), end = begin + bucket.size / ranks_.size();
    for (const Entry& entry : bucket.entries) {
      const int64_t from = std::max(begin, entry.begin), to = std::min(end, entry.begin + entry.count);
      if (from < to) action(entry.parameter, from - entry.begin, from - begin, to - from);
    }
  }

  NestedRanks ranks_;
  std::vector<Bucket> buckets_;
  std::vector<Frozen> frozen_;
  std::unordered_map<weft_param*, Place> places_;
  std::vector<std::vector<size_t>> used_by_;  // buckets by unit
};

}  // namespace sdk_v0
}  // namespace weft
