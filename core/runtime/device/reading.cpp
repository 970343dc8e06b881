#include "device/reading.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "device/tensors.hpp"
#include "trace/phases.hpp"

namespace weft::device {

void Reading::Sums::add(const double* elements) const {
  for (int64_t i = 0; i < count; ++i)
    sums[places.empty() ? i : places[static_cast<size_t>(i)]] += elements[i];
}

void Reading::add(const at::Tensor& values, double* sums, std::vector<int64_t> places) {
  Sums own{values.numel(), sums, std::move(places)};
  if (is_on_host(values))
    own.add(values.contiguous().const_data_ptr<double>());
  else
    unread_.emplace_back(values.reshape(-1), std::move(own));
}

void Reading::begin() {
  if (unread_.empty()) return;
  Copy& copy = copies_.emplace_back();
  std::vector<at::Tensor> all;
  for (auto& [values, sums] : unread_) {
    all.push_back(values);
    copy.sums.push_back(std::move(sums));
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
    for (const Sums& sums : copy.sums) {
      sums.add(next);
      next += sums.count;
    }
  }
  copies_.clear();
}

}  // namespace weft::device
