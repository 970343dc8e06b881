#include "optim/gradient_norm.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "training/bindings.hpp"

namespace weft::optim {

NormPart::NormPart(const std::vector<Shard>& shards, double p) : p_(p) {
  std::vector<at::Tensor> of_host, of_device;
  for (const Shard& shard : shards) {
    if (!shard.gradient.defined() || !shard.counted) continue;
    int64_t begin = shard.counted_begin, count = shard.counted_count;
    // Without a mesh, in a divided model, the caller has said what counts.
    if (const Bindings* const bindings = shard.param->bindings) {
      const Axes local = bindings->local_axes();
      std::tie(begin, count) =
          bindings->mesh().counted_range(joined(shard.partition_axes, local), shard.count);
      if (!std::isinf(p)) share_ = 1.0 / bindings->mesh().place(local).size;
    }
    if (count == 0) continue;
    const at::Tensor counted = shard.gradient.narrow(0, begin, count);
    if (device::is_on_host(counted))
      of_host.push_back(counted);
    else if (has_kernel<operators::NormPart>(counted))
      of_device.push_back(counted);
    else
      of_host.push_back(device::on_host(counted));
  }
  if (!of_host.empty()) of_host_ = call<operators::NormPart>(of_host, p);
  if (!of_device.empty()) of_device_ = call<operators::NormPart>(of_device, p);
}

at::Tensor NormPart::on_device() const {
  if (of_device_.defined() && share_ != 1) return of_device_ * share_;
  return of_device_.defined() ? of_device_ : at::zeros({}, device::current().options(at::kDouble));
}

void NormPart::read(device::Reading& reading) {
  if (of_host_.defined()) reading.add(of_host_, &host_value_);
  if (of_device_.defined()) reading.add(of_device_, &device_value_);
}

double NormPart::value() const {
  if (!std::isfinite(host_value_) || !std::isfinite(device_value_))
    return std::numeric_limits<double>::infinity();
  return std::isinf(p_) ? std::max(host_value_, device_value_) : (host_value_ + device_value_) * share_;
}

double counted_norm_part(const std::vector<Shard>& shards, double p) {
  NormPart part(shards, p);
  device::Reading reading;
  part.read(reading);
  reading.read();
  return part.value();
}

void reduce_over_ranks(const World& world, std::vector<double>& values, ReduceOp op) {
  if (world.size() == 1) return;
  const at::Tensor sums = at::tensor(values, at::kDouble);
  world.communicator().all_reduce(sums, op, true).wait();
  values = device::values_of<double>(sums);
}

void reduce_with_norm(const World& world, std::vector<double>& values, double norm_type) {
  if (!std::isinf(norm_type)) return reduce_over_ranks(world, values);
  std::vector<double> largest = {std::exchange(values.front(), 0)};
  reduce_over_ranks(world, values);
  reduce_over_ranks(world, largest, ReduceOp::kMax);
  values.front() = largest.front();
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

void scale_gradients(const std::vector<Shard>& shards, double factor) {
  if (!(factor < 1)) return;
  const at::NoGradGuard no_grad;
  for (const Shard& shard : shards)
    if (shard.gradient.defined()) at::Tensor(shard.gradient).mul_(factor);
}

}  // namespace weft::optim
