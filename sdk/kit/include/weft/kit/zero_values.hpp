// The values of parameters in flat buckets that ranks update in parts: one half of ZeRO (Rajbhandari et al.,
// 2020). zero_buckets.hpp has the other half, the gradients.
//
// A bucket is one buffer that its parameters are views of; each rank owns an equal part, so that updated
// parts are gathered in place. Where the optimizer updates the dtype that the layers compute with, in
// accelerator memory as they do, the master values are the owned part itself, not a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <unordered_map>
#include <vector>

#include "weft/kit/flat_part.hpp"
#include "weft/kit/nested_ranks.hpp"
#include "weft/kit/zero_fill.hpp"
#include "weft/torch/pools.hpp"

namespace weft::kit {

// The values of all parameters, in buckets.
class ZeroValues {
 public:
  // A parameter in a bucket.
  struct Entry {
    Parameter parameter;
    int64_t begin, count;  // in the bucket
  };
  // A flat buffer that its parameters are views of.
  struct Bucket {
    at::ScalarType dtype, master_dtype;
    uint32_t axes = 0;  // over which its gradients are summed and its values divided
    NestedRanks ranks;  // along these
    std::vector<Entry> entries;
    int64_t size = 0;  // with padding: a multiple of 64 bytes for each rank
    at::Tensor values;
    at::Tensor master;  // of the owned part, where it is not a part of `values`
    mutable Work gather;
  };
  // Where a parameter is.
  struct Place {
    size_t bucket, entry;
  };

  // Fills and binds all parameters; those of one bucket have the same gradient_axes, which divide it. Frozen
  // ones are left whole on every rank. `home` is the pool of the master values.
  void build(const Training& training, int64_t capacity, uint32_t home);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  Place place(Parameter parameter) const { return places_.at(parameter.get()); }
  // Returns the parameters that `unit` owns: its backward completes their gradients.
  const std::vector<Place>& owned_by(Unit unit) const { return owned_by_[unit.index()]; }

  // Waits for the values that `unit` uses, or for all of them.
  void wait_for(Unit unit) const;
  void wait() const;

  // Starts to gather what all ranks wrote to their parts, in the order in which units use it.
  void gather();

  // `sums(index)` returns the gradients of the owned part of a bucket, or an undefined tensor.
  void publish(const ShardSink& sink, const std::function<at::Tensor(size_t)>& sums) const;

 private:
  struct Frozen {
    Parameter parameter;
    at::Tensor values;
  };

  void add(const Training& training, Parameter parameter, int64_t capacity);
  Bucket& open_bucket(const Training& training, const weft_param_info& info, int64_t capacity);
  void make(Bucket& bucket, int64_t capacity);
  OwnRange owned(const Bucket& bucket, const Entry& entry) const;

  uint32_t home_ = WEFT_POOL_ACCELERATOR;
  std::vector<Bucket> buckets_;
  std::vector<Frozen> frozen_;
  std::unordered_map<weft_param*, Place> places_;
  std::vector<std::vector<size_t>> used_by_;  // buckets by unit
  std::vector<std::vector<Place>> owned_by_;  // parameters by unit
};

}  // namespace weft::kit
