// Parameters and gradients in buckets that ranks own in parts: stages 1 and 2 of ZeRO (Rajbhandari et al.,
// 2020, sections 5.1 and 5.2), for strategies that keep whole parameters on every rank but update one part
// of them each.
//
// Gradients are reduce-scattered in place in the layout of the values, so nothing is copied but each gradient
// into its bucket, and one that is the whole bucket not even there.
//
// Buckets are fixed when they are built and always start in that order: backward may complete them
// differently on each rank, and collectives must be issued identically everywhere. One is summed while the
// next is collected.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "weft/kit/zero_gradients.hpp"

namespace weft::kit {

// How buckets are made and communicated.
struct ZeroBucketOptions {
  int64_t stage = 1;  // 1: a rank keeps all gradients of a backward until its end; 2: sums of its part
  int64_t capacity = 12 << 20;                  // elements of a bucket; a larger parameter has one to itself
  std::optional<at::ScalarType> communication;  // what gradients are sent as; none: their own dtype
  bool overlap_reduction = true;                // gradients are reduced while backward goes on
  bool overlap_gather = false;                  // values are gathered until a unit that uses them runs
  uint32_t home = WEFT_POOL_ACCELERATOR;        // the pool of master values and summed gradients
};

// The buckets of all parameters that are trained.
class ZeroBuckets {
 public:
  // Fills and binds all parameters.
  void build(const Training& training, const ZeroBucketOptions& options);

  void before_forward(Unit unit) { values_.wait_for(unit); }

  // Prepares for a backward. Without `synchronise`, which stage 2 cannot do, gradients stay on this rank.
  void begin(bool synchronise);

  void ready(Parameter parameter);

  // Marks what `unit` owns and got no gradient as complete, in a backward through one forward.
  void unit_done(Unit unit);

  // Starts what is left after a backward and waits for all. What got no gradient counts as zero.
  void end();

  // Throws if gradients were left that no sum contains.
  void publish(const ShardSink& sink) const;

  void values_changed();
  void zero();

  const ZeroValues& values() const { return values_; }

 private:
  // No gradient is summed over several ranks.
  bool is_alone() const;
  bool offloads() const { return options_.home != WEFT_POOL_ACCELERATOR; }
  // The summed gradients stay in their bucket, where the next backwards add to them.
  bool keeps_whole() const { return options_.stage == 1 && !offloads(); }

  void reach(ZeroValues::Place place);
  void start_complete();
  void start(ZeroGradients& bucket);
  void reduce(ZeroGradients& bucket);
  void advance();
  void finish(ZeroGradients& bucket);

  ZeroValues values_;
  std::vector<ZeroGradients> gradients_;
  ZeroBucketOptions options_;
  GradientMemory memory_;
  size_t done_ = 0, next_ = 0;  // buckets [done_, next_) are under way
  bool active_ = false;         // in a backward that synchronises
  bool summed_ = false;         // stage 1: the owned parts are sums over all ranks
  bool local_ = false;          // stage 1: there are gradients that no sum contains
};

}  // namespace weft::kit
