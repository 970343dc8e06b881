// What replicas of a model do in addition to reducing gradients: broadcast the buffers of the first rank
// before each forward, and check that all ranks reduce the same gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "weft/kit/gradient_buckets.hpp"
#include "weft/torch/handles.hpp"

namespace weft::plugin::kit {

// Options of the replicas.
struct ReplicaOptions {
  bool broadcast_buffers = true;
  bool check_reduction = false;
};

// The data-parallel ranks, each of which holds the whole model.
class Replicas {
 public:
  void build(const Training& training, ReplicaOptions options);

  // Call these in the strategy's hooks of the same names, before the hook uses `buckets`.
  void before_forward(Unit unit, const GradientBuckets& buckets);
  void begin_backward(bool synchronise, const GradientBuckets& buckets);
  void values_changed(const GradientBuckets& buckets) { changed_alone_ = changed_alone_ || buckets.local(); }

 private:
  enum Phase : int64_t { kForward, kLocalBackward, kBackward };

  void check_agreement(Phase phase, const GradientBuckets& buckets);
  [[noreturn]] static void refuse(const std::string& what);

  Communicator samples_;
  std::vector<at::Tensor> buffers_;
  bool check_ = false;
  int64_t backwards_ = 0, synchronised_ = 0;  // how many there were so far
  bool changed_alone_ = false;  // this rank updated the parameters with gradients that were not reduced
};

}  // namespace weft::plugin::kit
