// The values of parameters in flat buckets, of which each rank updates one part: one half of ZeRO
// (Rajbhandari et al., 2020). zero_buckets.hpp has the other half, the gradients.
//
// A bucket is one buffer, and its parameters are views of it. Each rank owns an equal part, so that updated
// parts are all-gathered in place. If the master dtype is the working dtype and nothing is offloaded, the
// master weights are the owned part itself and not a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <unordered_map>
#include <vector>

#include "weft/kit/flat_part.hpp"
#include "weft/kit/nested_ranks.hpp"
#include "weft/kit/zero_fill.hpp"
#include "weft/torch/pools.hpp"

namespace weft::plugin::kit {

// The values of all parameters, in buckets.
class ZeroValues {
 public:
  // The place of a parameter in a bucket.
  struct Entry {
    Parameter parameter;
    int64_t begin, count;  // in the bucket
  };
  // A flat buffer of parameters.
  struct Bucket {
    at::ScalarType dtype, master_dtype;
    uint32_t axes = 0;  // over which its gradients are summed and its values are sharded
    NestedRanks ranks;  // the ranks along `axes`
    std::vector<Entry> entries;
    int64_t size = 0;  // with padding, so that each part is a multiple of 64 bytes
    at::Tensor values;
    HomePart master;  // master weights of the owned part; undefined if they are a part of `values`
    mutable Work gather;
  };
  // The indices of a parameter's bucket and entry.
  struct Place {
    size_t bucket, entry;
  };

  // Reads the values of all parameters and binds their storage. A bucket is sharded over the gradient_axes of
  // its parameters, which must be equal. Frozen parameters are replicated. `home` is the pool of the master
  // weights.
  void build(const Training& training, int64_t capacity, uint32_t home);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  Place place(Parameter parameter) const { return places_.at(parameter.get()); }
  // Returns the parameters that `unit` owns, whose gradients its backward completes.
  const std::vector<Place>& owned_by(Unit unit) const { return owned_by_[unit.index()]; }

  // Wait for the all-gathers of the values that `unit` uses, or for all of them.
  void wait_for(Unit unit) const;
  void wait() const;

  // Starts to all-gather the updated parts of all ranks, in the order in which units use them.
  void gather();

  // Publishes the owned parts. `sums(index)` returns the gradients of the owned part of a bucket, or an
  // undefined tensor.
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
  // Returns the working copy of the owned part that the host makes, in the pool of the master weights. It is
  // undefined if there is none.
  at::Tensor rounded(const Bucket& bucket) const;

  uint32_t home_ = WEFT_POOL_ACCELERATOR;
  std::vector<Bucket> buckets_;
  std::vector<Frozen> frozen_;
  std::unordered_map<weft_param*, Place> places_;
  std::vector<std::vector<size_t>> used_by_;  // buckets by unit
  std::vector<std::vector<Place>> owned_by_;  // parameters by unit
};

}  // namespace weft::plugin::kit
