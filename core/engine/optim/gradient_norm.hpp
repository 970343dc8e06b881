// Computes the norm of all gradients from the published shards of every rank, and clips by it.
#pragma once

#include <vector>

#include "device/reading.hpp"
#include "training/handles.hpp"

namespace weft::optim {

// The sum of |g|^p over the elements that this rank counts, in float64, or the largest |g| if p is infinite.
class NormPart {
 public:
  // Computes it. Parts that a device has are complete when `reading` has been read.
  NormPart(const std::vector<Shard>& shards, double p, device::Reading& reading);
  NormPart(const NormPart&) = delete;
  // Returns infinity if a gradient is not finite.
  double value() const;

 private:
  const double p_;
  double of_host_ = 0, of_device_ = 0;
};

// Returns NormPart at once; the host waits for the device.
double counted_norm_part(const std::vector<Shard>& shards, double p);

// Returns the norm, given the parts of all ranks combined: their sum, or their maximum if p is infinite.
double norm_of_parts(double combined, double p);

// Throws INVALID_ARGUMENT naming the option `who` unless p is positive.
void check_norm_type(double p, const char* who);
// Checks the arguments of clip_grad_by_norm in the same way.
void check_clipping(double max_norm, double norm_type);

// Returns the factor that scales gradients of this norm down to `max_norm`, as
// torch.nn.utils.clip_grad_norm_.
double clip_factor(double norm, double max_norm);
// Multiplies gradients in place by a factor of at most 1.
void scale_gradients(const std::vector<Shard>& shards, double factor);

}  // namespace weft::optim
