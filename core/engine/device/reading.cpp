#include "device/reading.hpp"

#include <ATen/ops/cat.h>

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

void Reading::read() {
  if (unread_.empty()) return;
  const trace::InPhase waiting(trace::Phase::kDevice);
  std::vector<at::Tensor> all;
  for (const auto& [values, sums] : unread_) all.push_back(values);
  const std::vector<double> read = values_of<double>(at::cat(all));
  const double* next = read.data();
  for (const auto& [values, sums] : unread_) {
    add_elements(next, values.numel(), sums);
    next += values.numel();
  }
  unread_.clear();
}

}  // namespace weft::device
