#include "optim/gradient_norm.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

namespace weft::optim {

namespace {

// In float64 whatever the dtype, without a converted copy.
template <class T>
double sum_of_squares(const T* data, int64_t count) {
  constexpr int kLanes = 8;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane)
      sums[lane] += static_cast<double>(data[i + lane]) * static_cast<double>(data[i + lane]);
  for (; i < count; ++i) sums[0] += static_cast<double>(data[i]) * static_cast<double>(data[i]);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

double counted_sum_of_squares(const std::vector<Shard>& shards) {
  double total = 0;
  for (const Shard& shard : shards) {
    if (!shard.gradient.defined() || shard.counted_count == 0) continue;
    const at::Tensor part = shard.gradient.narrow(0, shard.counted_begin, shard.counted_count);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, part.scalar_type(), "sum_of_squares", [&] {
      total += sum_of_squares(part.const_data_ptr<scalar_t>(), part.numel());
    });
  }
  return total;
}

}  // namespace weft::optim
