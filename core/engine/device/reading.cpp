#include "device/reading.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "device/tensors.hpp"
#include "trace/phases.hpp"

namespace weft::device {

namespace {

void add_elements(const double* values, int64_t count, double* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += values[i];
}

}  // namespace

void Reading::add(const at::Tensor& values, double* sums) {
  if (is_on_host(values))
    add_elements(values.contiguous().const_data_ptr<double>(), values.numel(), sums);
  else
    unread_.emplace_back(values.reshape(-1), sums);
}

void Reading::begin() {
  if (unread_.empty() || copied_.defined()) return;
  std::vector<at::Tensor> all;
  for (const auto& [values, sums] : unread_) all.push_back(values);
  const at::Tensor joined = at::cat(all);
  copied_ = at::empty(joined.sizes(), joined.options().device(kHost).pinned_memory(true));
  copied_.copy_(joined, /*non_blocking=*/true);
  done_.record();
}

void Reading::read() {
  if (unread_.empty()) return;
  const trace::InPhase waiting(trace::Phase::kDevice);
  begin();
  done_.synchronise();
  const double* next = copied_.const_data_ptr<double>();
  for (const auto& [values, sums] : unread_) {
    add_elements(next, values.numel(), sums);
    next += values.numel();
  }
  unread_.clear();
  copied_.reset();
}

}  // namespace weft::device
