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
  if (unread_.empty()) return;
  Copy& copy = copies_.emplace_back();
  std::vector<at::Tensor> all;
  for (const auto& [values, sums] : unread_) {
    all.push_back(values);
    copy.sums.emplace_back(values.numel(), sums);
  }
  unread_.clear();
  const at::Tensor joined = all.size() == 1 ? all.front() : at::cat(all);
  copy.elements = at::empty(joined.sizes(), joined.options().device(kHost).pinned_memory(true));
  copy.elements.copy_(joined, /*non_blocking=*/true);
  done_.record();
}

void Reading::read() {
  begin();
  if (copies_.empty()) return;
  refuse_in_graph("the host reads values of the device while it runs");
  const trace::InPhase waiting(trace::Phase::kDevice);
  done_.synchronise();
  for (const Copy& copy : copies_) {
    const double* next = copy.elements.const_data_ptr<double>();
    for (const auto& [count, sums] : copy.sums) {
      add_elements(next, count, sums);
      next += count;
    }
  }
  copies_.clear();
}

}  // namespace weft::device
