// Sums whole gradients over the data-parallel ranks in buckets while backward runs.
//
// Buckets are fixed when they are built, in the reverse order of the parameters, and always start in that
// order: backward may complete them differently on each rank, and collectives must be issued identically
// everywhere. The assignment is that of PyTorch's DistributedDataParallel
// (compute_bucket_assignment_by_size): along the parameters, and for each dtype separately, a bucket closes
// with the parameter that fills it. The first bucket holds `first_bytes`, the others `capacity_bytes`. The
// first one is reduced last, when there is no computation left to overlap with, and is small for that reason.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "weft/kit/graph_faults.hpp"
#include "weft/torch/handles.hpp"

namespace weft::kit {

// How buckets are made.
struct GradientBucketOptions {
  int64_t first_bytes = 1 << 20;
  int64_t capacity_bytes = 25 << 20;
  bool views = false;         // .grad is a view of the bucket: no second copy of the gradients
  bool find_unused = false;   // a parameter without gradient counts as zero instead of being an error
  bool static_graph = false;  // the parameters used in the first backward are those used in all
};

// The buckets of all parameters that are trained.
class GradientBuckets {
 public:
  // Assigns the parameters, in the order of the model, to buckets; those of one bucket are summed over the
  // same ranks (weft_param_info::gradient_axes). Frozen ones are left out. All have their storage.
  void build(const Training& training, const std::vector<Parameter>& parameters,
             GradientBucketOptions options);

  // Prepares for a backward. Gradients that are already summed count once in the next sum: rank 0 of those
  // that were summed keeps them.
  void begin(bool synchronise);

  // Takes the gradient of a parameter, and starts the buckets that it completes.
  void ready(Parameter parameter);

  // Starts the buckets that are left after a backward and waits for all sums. Throws on every rank alike if a
  // parameter of some rank broke the rules of the options.
  void end();

  void zero(const std::vector<Parameter>& parameters);

  // Returns true if there are gradients of this rank alone, from backwards without a sum after them.
  bool local() const { return local_; }

  // Return how many sums the last backward issued, and how many a whole one issues.
  size_t started() const { return next_; }
  size_t count() const { return buckets_.size(); }
  // Returns the names of the parameters of each bucket, in the order of the buckets.
  std::vector<std::vector<std::string>> layout() const;

 private:
  struct Entry {
    Parameter parameter;
    std::string name;
    int64_t index;         // of the parameter
    int64_t begin, count;  // in the bucket
    bool ready = false;    // in this backward
    bool used = true;      // with a static graph
  };
  struct Bucket {
    at::ScalarType dtype = at::kFloat;
    uint32_t axes = 0;   // over which its gradients are summed
    Communicator ranks;  // along these
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

  Communicator samples_;  // all ranks whose gradients are summed
  GradientBucketOptions options_;
  std::vector<Bucket> buckets_;
  std::unordered_map<weft_param*, Place> places_;
  size_t next_ = 0;
  bool active_ = false;       // in a backward that synchronises
  bool summed_ = false;       // the gradients are sums over all ranks
  bool local_ = false;        // there are gradients that are not
  bool graph_known_ = false;  // a backward was summed: with a static graph `used` is filled
  GraphFaults faults_;
};

}  // namespace weft::kit
