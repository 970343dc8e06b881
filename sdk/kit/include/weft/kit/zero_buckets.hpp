// Stages 1 and 2 of ZeRO (Rajbhandari et al., 2020, sections 5.1 and 5.2): every rank holds all parameters,
// but updates only its part of them. Parameters and gradients are in buckets, each of which is sharded over
// the ranks.
//
// Gradients are reduce-scattered in place, in the layout of the values. So the only copy is that of each
// gradient into its bucket, and a gradient that fills its bucket alone is not copied at all.
//
// Buckets are assigned once, and their reductions always start in that order: backward may complete buckets
// in a different order on each rank, but all ranks must issue the same sequence of collectives. One bucket is
// reduced while the next one is filled.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "weft/kit/zero_gradients.hpp"

namespace weft::plugin::kit {

// Options of the buckets.
struct ZeroBucketOptions {
  int64_t stage =
      1;  // 1: a rank keeps all gradients until backward ends; 2: its part of the reduced ones only
  int64_t capacity = 12 << 20;  // elements of a bucket; a larger parameter has its own bucket
  std::optional<at::ScalarType>
      communication;                      // the dtype in which gradients are sent; none: their own dtype
  bool overlap_reduction = true;          // reduce gradients while backward runs
  bool overlap_gather = false;            // gather updated values until the next forward needs them
  uint32_t home = WEFT_POOL_ACCELERATOR;  // the pool of master weights and reduced gradients
};

// The ZeRO buckets of all trained parameters.
class ZeroBuckets {
 public:
  // Reads the values of all parameters and binds their storage.
  void build(const Training& training, const ZeroBucketOptions& options);

  void before_forward(Unit unit) { values_.wait_for(unit); }

  // Prepares for a backward. If `synchronise` is false, gradients are not reduced; only stage 1 supports
  // this.
  void begin(bool synchronise);

  void ready(Parameter parameter);

  // Marks parameters of `unit` without a gradient as complete. For a backward through one forward.
  void unit_done(Unit unit);

  // Starts the remaining reductions after a backward and waits for all. Missing gradients count as zero.
  void end();

  // Throws if some gradients are not reduced yet.
  void publish(const ShardSink& sink) const;

  void values_changed();
  void zero();

  const ZeroValues& values() const { return values_; }

 private:
  // Returns true if no gradient is summed over several ranks.
  bool is_alone() const;
  bool offloads() const { return options_.home != WEFT_POOL_ACCELERATOR; }
  // Returns true if reduced gradients stay in their bucket, where the next backward adds to them.
  bool keeps_whole() const { return options_.stage == 1 && !offloads(); }

  void reach(ZeroValues::Place place);
  void start_complete();
  void start(ZeroGradients& bucket);
  void reduce(ZeroGradients& bucket);
  void advance();
  void finish(ZeroGradients& bucket);
  void release_saved();

  ZeroValues values_;
  std::vector<ZeroGradients> gradients_;
  ZeroBucketOptions options_;
  GradientMemory memory_;
  size_t done_ = 0, next_ = 0;       // buckets [done_, next_) are being reduced
  ZeroGradients* saving_ = nullptr;  // its sum is being copied to host memory
  bool active_ = false;              // in a backward that reduces gradients
  bool summed_ = false;              // stage 1: the owned parts are sums over all ranks
  bool local_ = false;               // stage 1: some gradients are not reduced yet
};

}  // namespace weft::plugin::kit
