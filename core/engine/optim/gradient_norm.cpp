#include "optim/gradient_norm.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "device/tensors.hpp"

namespace weft::optim {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Accumulates add(sum, |x|) over the data in float64, without a converted copy. Several lanes keep the
// additions independent of each other.
template <class T, class Add, class Merge>
double accumulate(const T* data, int64_t count, const Add& add, const Merge& merge) {
  constexpr int kLanes = 8;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane)
      sums[lane] = add(sums[lane], std::fabs(static_cast<double>(data[i + lane])));
  for (; i < count; ++i) sums[0] = add(sums[0], std::fabs(static_cast<double>(data[i])));
  double total = 0;
  for (const double sum : sums) total = merge(total, sum);
  return total;
}

template <class T>
double part_of(const T* data, int64_t count, double p) {
  const auto plus = [](double a, double b) { return a + b; };
  if (p == 2)
    return accumulate(
        data, count, [](double sum, double x) { return sum + x * x; }, plus);
  if (p == 1) return accumulate(data, count, plus, plus);
  if (std::isinf(p)) {
    // Comparisons with NaN are false, so this order keeps a NaN.
    const auto larger = [](double a, double b) { return a >= b || std::isnan(a) ? a : b; };
    return accumulate(data, count, larger, larger);
  }
  return accumulate(
      data, count, [p](double sum, double x) { return sum + std::pow(x, p); }, plus);
}

}  // namespace

double counted_norm_part(const std::vector<Shard>& shards, double p) {
  double total = 0;
  for (const Shard& shard : shards) {
    if (!shard.gradient.defined() || shard.counted_count == 0) continue;
    const at::Tensor part =
        device::on_host(shard.gradient.narrow(0, shard.counted_begin, shard.counted_count));
    double value = 0;
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, part.scalar_type(), "gradient_norm", [&] {
      value = part_of(part.const_data_ptr<scalar_t>(), part.numel(), p);
    });
    if (!std::isfinite(value)) return kInfinity;
    total = std::isinf(p) ? std::max(total, value) : total + value;
  }
  return total;
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
