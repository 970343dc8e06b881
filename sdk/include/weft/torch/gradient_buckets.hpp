// Gradients of whole parameters in buckets that are summed over the data axes while backward runs. Shared by
// the strategies that keep whole gradients on every rank.
//
// Buckets are fixed when they are built, in the reverse order of the parameters, and always start in that
// order: backward may complete them differently on each rank, and collectives must be issued identically
// everywhere. Assignment as in PyTorch's DistributedDataParallel (compute_bucket_assignment_by_size): along
// the parameters, each dtype by itself, a bucket closes with the parameter that fills it; a first one of 1
// MiB, then `capacity_bytes`. The first comes last in backward, when nothing is left to hide its sum behind,
// and so is small.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph_faults.hpp"
#include "handles.hpp"

namespace weft {
inline namespace sdk_v0 {

struct GradientBucketOptions {
  int64_t first_bytes = 1 << 20;
  int64_t capacity_bytes = 25 << 20;
  bool views = false;         // .grad is a view of the bucket: no second copy of the gradients
  bool find_unused = false;   // a parameter without gradient counts zero instead of being an error
  bool static_graph = false;  // the parameters used in the first backward are those used in all
};

class GradientBuckets {
 public:
  // `parameters` in the order of the model; frozen ones are left out. All have their storage.
  void build(const std::vector<Parameter>& parameters, Communicator data, GradientBucketOptions options) {
    data_ = data;
    options_ = options;
    std::map<at::ScalarType, int64_t> limits;
    for (const Parameter& parameter : parameters) {
      const weft_param_info info = parameter.info();
      if (info.frozen) continue;
      const at::ScalarType dtype = scalar_type(info.working_dtype);
      int64_t& limit =
          limits.try_emplace(dtype, std::min(options.first_bytes, options.capacity_bytes)).first->second;
      Bucket& bucket = open_bucket(dtype);
      bucket.entries.push_back(
          {parameter, text(info.name), info.index, bucket.size, info.count, false, true});
      bucket.size += info.count;
      if (bucket.size * static_cast<int64_t>(c10::elementSize(dtype)) >= limit) {
        bucket.closed = true;
        limit = options.capacity_bytes;
      }
    }
    std::reverse(buckets_.begin(), buckets_.end());
    for (size_t b = 0; b < buckets_.size(); ++b) {
      buckets_[b].flat = at::zeros({buckets_[b].size}, buckets_[b].dtype);
      for (size_t e = 0; e < buckets_[b].entries.size(); ++e)
        places_[buckets_[b].entries[e].parameter.get()] = {b, e};
    }
  }

  // Before a backward. Gradients that are already summed count once in the next sum: rank 0 keeps them.
  void begin(bool synchronise) {
    if (summed_ && data_.rank() != 0)
      for_each([](Bucket&, Entry& entry) { entry.parameter.gradient().reset(); });
    summed_ = false;
    local_ = true;
    active_ = synchronise;
    if (!synchronise) return;
    next_ = 0;
    for (Bucket& bucket : buckets_) {
      bucket.missing = bucket.entries.size();
      for (Entry& entry : bucket.entries) {
        entry.ready = options_.static_graph && graph_known_ && !entry.used;
        bucket.missing -= entry.ready ? 1 : 0;
      }
    }
  }

  void ready(Parameter parameter) {
    const Place place = places_.at(parameter.get());
    Bucket& bucket = buckets_[place.bucket];
    Entry& entry = bucket.entries[place.entry];
    if (options_.static_graph && graph_known_ && !entry.used)
      return faults_.note(entry.index, GraphFaults::kNewlyUsed);
    if (active_ || options_.views) collect(bucket, entry);
    if (!active_) return;
    entry.ready = true;
    if (--bucket.missing == 0) start_complete();
  }

  // After a backward: starts what is left, waits for all sums. Throws on every rank alike if a parameter of
  // some rank broke the rules of the options.
  void end() {
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
    if (checked) faults_.start(data_);
    for (Bucket& bucket : buckets_) finish(bucket);
    if (checked) faults_.finish([this](int64_t index) { return name_of(index); });
    summed_ = true;
    local_ = false;
  }

  void zero(const std::vector<Parameter>& parameters) {
    for (const Parameter& parameter : parameters) parameter.gradient().reset();
    summed_ = local_ = false;
  }

  // True if there are gradients of this rank alone, from backwards without a sum after them.
  bool local() const { return local_; }

  // How many sums the last backward issued, and how many a whole one issues.
  size_t started() const { return next_; }
  size_t count() const { return buckets_.size(); }
  // The names of the parameters of each bucket, in the order of the buckets.
  std::vector<std::vector<std::string>> layout() const {
    std::vector<std::vector<std::string>> names;
    for (const Bucket& bucket : buckets_) {
      names.emplace_back();
      for (const Entry& entry : bucket.entries) names.back().push_back(entry.name);
    }
    return names;
  }

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

  Bucket& open_bucket(at::ScalarType dtype) {
    for (Bucket& bucket : buckets_)
      if (bucket.dtype == dtype && !bucket.closed) return bucket;
    buckets_.emplace_back().dtype = dtype;
    return buckets_.back();
  }

  std::string name_of(int64_t index) {
    std::string name;
    for_each([&](Bucket&, Entry& entry) {
      if (entry.index == index) name = entry.name;
    });
    return name;
  }

  template <class Action>
  void for_each(const Action& action) {
    for (Bucket& bucket : buckets_)
      for (Entry& entry : bucket.entries) action(bucket, entry);
  }

  void collect(Bucket& bucket, Entry& entry) {
    at::NoGradGuard no_grad;
    at::Tensor& gradient = entry.parameter.gradient();
    const at::Tensor slice = bucket.flat.narrow(0, entry.begin, entry.count).view(gradient.sizes());
    if (gradient.is_alias_of(slice)) return;
    slice.copy_(gradient);
    if (options_.views) gradient = slice;
  }

  void finish_unused(Bucket& bucket, Entry& entry, bool checked) {
    if (entry.parameter.gradient().defined()) return collect(bucket, entry);  // from an earlier micro-batch
    if (checked)
      faults_.note(entry.index, options_.static_graph ? GraphFaults::kNoLongerUsed : GraphFaults::kUnused);
    bucket.flat.narrow(0, entry.begin, entry.count).zero_();
  }

  void start_complete() {
    for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
      Bucket& bucket = buckets_[next_];
      if (options_.static_graph && graph_known_)
        for (const Entry& entry : bucket.entries)
          if (!entry.used) bucket.flat.narrow(0, entry.begin, entry.count).zero_();
      bucket.work = data_.all_reduce(bucket.flat);
    }
  }

  void finish(Bucket& bucket) {
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

  Communicator data_;
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

}  // namespace sdk_v0
}  // namespace weft
