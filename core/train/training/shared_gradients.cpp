#include "training/shared_gradients.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>
#include <utility>

#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "host/launch/activity.hpp"

namespace weft {

namespace {

// Returns whether a sum over the ranks depends on the order in which they are added.
bool depends_on_order(const Communicator& ranks) {
  return ranks.size() > 2;
}

// Sums `gradient` over the samples and leaves the sum to the first rank, zeros to the others. The strategy
// would sum it in another bucket on each holder, and so in another order: their copies would drift apart by
// rounding. Zeros add up alike in any order.
void sum_over_samples(const Communicator& samples, at::Tensor& gradient) {
  if (!depends_on_order(samples)) return;
  samples.all_reduce(gradient).wait();
  if (samples.rank() != 0) gradient.zero_();
}

}  // namespace

void SharedGradients::add(weft_param& param, const Communicator& holders, const Communicator& samples) {
  entries_.push_back({&param, holders, samples, {}, {}});
}

void SharedGradients::begin() {
  for (Entry& entry : entries_)
    entry.aside = std::exchange(entry.param->tensor.mutable_grad(), std::exchange(entry.own, at::Tensor()));
}

void SharedGradients::end() {
  for (Entry& entry : entries_)
    entry.own = std::exchange(entry.param->tensor.mutable_grad(), std::exchange(entry.aside, at::Tensor()));
}

// Returns "rank 3" or "ranks 2 and 3", the other ranks that have one of the parameters.
std::string SharedGradients::others() const {
  std::set<int> ranks;
  for (const Entry& entry : entries_)
    for (int rank = 0; rank < entry.holders.size(); ++rank)
      if (rank != entry.holders.rank()) ranks.insert(entry.holders.rank_in_job(rank));
  return ranks_text({ranks.begin(), ranks.end()});
}

std::vector<weft_param*> SharedGradients::complete() {
  if (entries_.empty()) return {};
  const at::NoGradGuard no_grad;
  const ActivityDetail detail("waiting for " + others() + " to share gradients");
  std::vector<Work> works;
  const auto wait = [&] {
    for (Work& work : works) work.wait();
    works.clear();
  };
  std::vector<at::Tensor> found;  // whether a holder has a gradient
  for (const Entry& entry : entries_) {
    found.push_back(at::full({1}, entry.own.defined() ? 1 : 0, at::kLong));
    works.push_back(entry.holders.all_reduce(found.back(), ReduceOp::kMax, true));
  }
  wait();
  for (size_t e = 0; e < entries_.size(); ++e)
    if (depends_on_order(entries_[e].samples))
      works.push_back(entries_[e].samples.all_reduce(found[e], ReduceOp::kMax, true));
  wait();
  std::vector<Entry*> summed;
  for (size_t e = 0; e < entries_.size(); ++e) {
    if (device::value_of<int64_t>(found[e]) == 0) continue;
    Entry& entry = *summed.emplace_back(&entries_[e]);
    entry.own = entry.own.defined() ? entry.own.contiguous()
                                    : at::zeros(entry.param->local, entry.param->tensor.options());
    works.push_back(entry.holders.all_reduce(entry.own));
  }
  wait();
  for (Entry* entry : summed) sum_over_samples(entry->samples, entry->own);
  std::vector<weft_param*> complete;
  for (Entry* entry : summed) {
    at::Tensor& gradient = entry->param->tensor.mutable_grad();
    const at::Tensor sum = std::exchange(entry->own, at::Tensor());
    if (gradient.defined())
      gradient.add_(sum);
    else
      gradient = sum;
    complete.push_back(entry->param);
  }
  return complete;
}

void SharedGradients::zero() {
  for (Entry& entry : entries_) entry.own.reset();
}

bool SharedGradients::is_pending() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.own.defined(); });
}

}  // namespace weft
