// All-reduces replicated gradients over the data-parallel ranks in buckets while backward runs.
//
// Buckets are assigned once, in the reverse order of the parameters, and their all-reduces always start in
// that order: backward may complete buckets in a different order on each rank, but all ranks must issue the
// same sequence of collectives. The assignment is that of PyTorch's DistributedDataParallel
// (compute_bucket_assignment_by_size): it goes through the parameters in their order, for each dtype
// separately, and closes a bucket with the parameter that fills it. The first bucket holds `first_bytes`, the
// others `capacity_bytes`. The first bucket is reduced last, when no computation is left to overlap with, and
// is small for that reason.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "weft/kit/graph_faults.hpp"
#include "weft/torch/handles.hpp"

namespace weft::plugin::kit {

// Options of the buckets.
struct GradientBucketOptions {
  int64_t first_bytes = 1 << 20;
  int64_t capacity_bytes = 25 << 20;
  bool views = false;         // .grad is a view of the bucket, which saves a copy of all gradients
  bool find_unused = false;   // a parameter without a gradient counts as zero; false: it is an error
  bool static_graph = false;  // every backward uses the parameters that the first one used
};

// The gradient buckets of all trained parameters.
class GradientBuckets {
 public:
  // Assigns the parameters, which are in the order of the model and bound, to buckets. The gradients of one
  // bucket are summed over the same ranks (weft_param_info::gradient_axes). Frozen parameters are left out.
  void build(const Training& training, const std::vector<Parameter>& parameters,
             GradientBucketOptions options);

  // Prepares for a backward. If the gradients are sums over the ranks already, rank 0 of the group keeps them
  // and the other ranks drop them, so that the next all-reduce counts them once.
  void begin(bool synchronise);

  // Takes the gradient of a parameter and starts the all-reduce of the buckets that it completes.
  void ready(Parameter parameter);

  // Starts the remaining all-reduces after a backward and waits for all of them. Throws on every rank if the
  // backward of any rank violated `find_unused` or `static_graph`.
  void end();

  void zero(const std::vector<Parameter>& parameters);

  // Returns true if some gradients are not reduced yet, after a backward under no_sync.
  bool local() const { return local_; }

  // Return how many all-reduces the last backward issued, and how many a complete backward issues.
  size_t started() const { return next_; }
  size_t count() const { return buckets_.size(); }
  // Returns the names of the parameters of each bucket.
  std::vector<std::vector<std::string>> layout() const;

 private:
  struct Entry {
    Parameter parameter;
    std::string name;
    int64_t index;         // of the parameter
    int64_t begin, count;  // in the bucket
    bool ready = false;    // its gradient is ready in this backward
    bool used = true;      // in the first backward, with a static graph
  };
  struct Bucket {
    at::ScalarType dtype = at::kFloat;
    uint32_t axes = 0;   // over which its gradients are summed
    Communicator ranks;  // the ranks along `axes`
    std::vector<Entry> entries;
    int64_t size = 0;
    bool closed = false;
    size_t missing = 0;
    at::Tensor flat;
    Work work;
  };
  struct Place {
    size_t bucket, entry;
  };

  Bucket& open_bucket(at::ScalarType dtype, uint32_t axes);
  std::string name_of(int64_t index) const;
  void collect(Bucket& bucket, Entry& entry);
  void finish_unused(Bucket& bucket, Entry& entry, bool checked);
  void start_complete();
  void finish(Bucket& bucket);

  template <class Action>
  void for_each(const Action& action) {
    for (Bucket& bucket : buckets_)
      for (Entry& entry : bucket.entries) action(bucket, entry);
  }

  Communicator samples_;  // all data-parallel ranks
  GradientBucketOptions options_;
  std::vector<Bucket> buckets_;
  std::unordered_map<weft_param*, Place> places_;
  size_t next_ = 0;
  bool active_ = false;       // in a backward that reduces gradients
  bool summed_ = false;       // the gradients are sums over all ranks
  bool local_ = false;        // some gradients are not reduced yet
  bool graph_known_ = false;  // Entry::used is known, with a static graph after the first reduction
  GraphFaults faults_;
};

}  // namespace weft::plugin::kit
