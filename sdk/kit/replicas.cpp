#include "weft/kit/replicas.hpp"

#include <ATen/ops/empty.h>

#include <array>

namespace weft::kit {

void Replicas::build(const Training& training, ReplicaOptions options) {
  samples_ = training.samples();
  check_ = options.check_reduction && samples_.size() > 1;
  if (options.broadcast_buffers && samples_.size() > 1) buffers_ = training.buffers();
}

void Replicas::before_forward(Unit unit, const GradientBuckets& buckets) {
  if (unit.index() != 0) return;
  if (check_) check_agreement(kForward, buckets);
  std::vector<Work> works;
  for (const at::Tensor& buffer : buffers_) works.push_back(samples_.broadcast(buffer, 0));
  for (Work& work : works) work.wait();
}

void Replicas::begin_backward(bool synchronise, const GradientBuckets& buckets) {
  if (check_) check_agreement(synchronise ? kBackward : kLocalBackward, buckets);
  ++backwards_;
  synchronised_ += synchronise;
}

// Checks that all ranks are at the same point of the loop, that the last backward issued all its all-reduces,
// and that no rank updated with gradients that were not reduced. Otherwise ranks would issue different
// collectives and hang.
void Replicas::check_agreement(Phase phase, const GradientBuckets& buckets) {
  const int64_t missing = synchronised_ ? static_cast<int64_t>(buckets.count() - buckets.started()) : 0;
  const std::array<int64_t, 5> own = {phase, backwards_, synchronised_, missing, changed_alone_};
  const at::Tensor bounds = at::empty({2, 5}, at::kLong);
  auto* const highest = bounds.data_ptr<int64_t>();
  for (size_t i = 0; i < own.size(); ++i) {
    highest[i] = own[i];
    highest[own.size() + i] = -own[i];
  }
  samples_.all_reduce(bounds, WEFT_REDUCE_MAX | WEFT_REDUCE_CONTROL).wait();
  const auto lowest = [&](size_t i) { return -highest[own.size() + i]; };
  static const char* const kPlaces[] = {"a forward", "a backward under no_sync", "a backward"};
  if (highest[0] != lowest(0))
    refuse(std::string("ranks disagree: some begin ") + kPlaces[lowest(0)] + ", others " +
           kPlaces[highest[0]] + "; this one begins " + kPlaces[phase]);
  for (const size_t i : {1, 2})
    if (highest[i] != lowest(i))
      refuse("ranks disagree: they ran between " + std::to_string(lowest(i)) + " and " +
             std::to_string(highest[i]) + (i == 1 ? " backwards" : " synchronised backwards") +
             ", this one " + std::to_string(own[i]));
  if (highest[3] != 0)
    refuse("the last backward left out " + std::to_string(highest[3]) + " of " +
           std::to_string(buckets.count()) +
           " sums on some rank; its gradients are not those of the global batch");
  if (highest[4] != 0)
    refuse(
        "parameters were updated with gradients that were never summed over the ranks, of backwards under "
        "no_sync with no synchronised one after them; the ranks' parameters differ now");
}

void Replicas::refuse(const std::string& what) {
  throw Error(WEFT_FAILED_PRECONDITION, "check_reduction: " + what);
}

}  // namespace weft::kit
