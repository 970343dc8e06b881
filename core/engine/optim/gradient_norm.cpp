#include "optim/gradient_norm.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "dispatch/operators.hpp"

namespace weft::optim {

NormPart::NormPart(const std::vector<Shard>& shards, double p, device::Reading& reading) : p_(p) {
  std::vector<at::Tensor> of_host, of_device;
  for (const Shard& shard : shards) {
    if (!shard.gradient.defined() || shard.counted_count == 0) continue;
    const at::Tensor counted = shard.gradient.narrow(0, shard.counted_begin, shard.counted_count);
    if (device::is_on_host(counted))
      of_host.push_back(counted);
    else if (has_kernel<operators::NormPart>(counted))
      of_device.push_back(counted);
    else
      of_host.push_back(device::on_host(counted));
  }
  if (!of_host.empty()) reading.add(call<operators::NormPart>(of_host, p), &of_host_);
  if (!of_device.empty()) reading.add(call<operators::NormPart>(of_device, p), &of_device_);
}

double NormPart::value() const {
  if (!std::isfinite(of_host_) || !std::isfinite(of_device_)) return std::numeric_limits<double>::infinity();
  return std::isinf(p_) ? std::max(of_host_, of_device_) : of_host_ + of_device_;
}

double counted_norm_part(const std::vector<Shard>& shards, double p) {
  device::Reading reading;
  const NormPart part(shards, p, reading);
  reading.read();
  return part.value();
}

double norm_of_parts(double combined, double p) {
  if (std::isinf(p)) return combined;
  return p == 2 ? std::sqrt(combined) : std::pow(combined, 1 / p);
}

void check_norm_type(double p, const char* who) {
  if (!(p > 0))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be positive; infinity is the largest element", who, p);
}

void check_clipping(double max_norm, double norm_type) {
  if (!(max_norm > 0))
    fail(WEFT_INVALID_ARGUMENT, "clip_grad_by_norm: the norm is {}, must be positive", max_norm);
  check_norm_type(norm_type, "clip_grad_by_norm: norm_type");
}

double clip_factor(double norm, double max_norm) {
  return std::min(1.0, max_norm / (norm + 1e-6));
}

void scale_gradients(const std::vector<Shard>& shards, double factor) {
  if (!(factor < 1)) return;
  const at::NoGradGuard no_grad;
  for (const Shard& shard : shards)
    if (shard.gradient.defined()) at::Tensor(shard.gradient).mul_(factor);
}

}  // namespace weft::optim
