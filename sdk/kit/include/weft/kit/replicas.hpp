// What data-parallel ranks that each hold the whole model do besides summing gradients: they take the buffers
// of the first rank before a forward, and check that they agree on what they sum.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "weft/kit/gradient_buckets.hpp"
#include "weft/torch/handles.hpp"

namespace weft::kit {

// What replicas do besides summing gradients.
struct ReplicaOptions {
  bool broadcast_buffers = true;
  bool check_reduction = false;
};

// The data-parallel ranks that hold the whole model.
class Replicas {
 public:
  void build(const Training& training, ReplicaOptions options);

  // Follow the strategy's hooks of these names, before what they do with `buckets`.
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
  int64_t backwards_ = 0, synchronised_ = 0;  // so far
  bool changed_alone_ = false;                // an update was made with gradients of this rank alone
};

}  // namespace weft::kit
