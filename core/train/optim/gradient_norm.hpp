// Computes the norm of all gradients from the published shards of every rank, and clips by it.
#pragma once

#include <vector>

#include "device/reading.hpp"
#include "dispatch/operators.hpp"
#include "training/handles.hpp"

namespace weft::optim {

// The sum of |g|^p over the elements that this rank counts, in float64, or the largest |g| if p is infinite.
// Of replicas that train on their own (Bindings::local_axes) each counts its elements, and the sum is divided
// by their number.
class NormPart {
 public:
  // Computes it, of gradients on the device without a wait of the host.
  NormPart(const std::vector<Shard>& shards, double p);
  NormPart(const NormPart&) = delete;
  // Returns whether the device has all of it, and decides by it: no gradient is in host memory.
  bool is_of_device() const { return !of_host_.defined() && has_kernel<operators::Decide>(on_device()); }
  // Returns what the device has of it: one element.
  at::Tensor on_device() const;
  // Adds what the device has of it to `reading`; value() is complete when that has been read.
  void read(device::Reading& reading);
  // Returns infinity if a gradient is not finite.
  double value() const;

 private:
  const double p_;
  double share_ = 1;                // of the sum
  at::Tensor of_host_, of_device_;  // undefined if there are no such gradients
  double host_value_ = 0, device_value_ = 0;
};

// Returns NormPart at once; the host waits for the device.
double counted_norm_part(const std::vector<Shard>& shards, double p);

// All-reduces `values`, the first of which is a part of a norm: it becomes the maximum over the ranks if
// `norm_type` is infinite. All other values, and that of other types, become sums.
void reduce_with_norm(const World& world, std::vector<double>& values, double norm_type);
// All-reduces `values` to sums. Both are for host memory and do nothing with one rank.
void reduce_over_ranks(const World& world, std::vector<double>& values, ReduceOp op = ReduceOp::kSum);

// Throws INVALID_ARGUMENT naming the option `who` unless p is positive.
void check_norm_type(double p, const char* who);
// Checks the arguments of clip_grad_by_norm in the same way.
void check_clipping(double max_norm, double norm_type);

// Multiplies gradients in place by a factor of at most 1.
void scale_gradients(const std::vector<Shard>& shards, double factor);

}  // namespace weft::optim
