#include "weft/kit/replicas.hpp"

#include <ATen/ops/tensor.h>

#include "weft/torch/values.hpp"

namespace weft::plugin::kit {

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
  const std::vector<int64_t> own = {phase, backwards_, synchronised_, missing, changed_alone_};
  std::vector<int64_t> both = own;  // and the negative numbers, whose maximum is the lowest
  for (const int64_t number : own) both.push_back(-number);
  const at::Tensor bounds = at::tensor(both, at::kLong);
  samples_.all_reduce(bounds, WEFT_REDUCE_MAX | WEFT_REDUCE_CONTROL).wait();
  const std::vector<int64_t> highest = values_of<int64_t>(bounds);
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

}  // namespace weft::plugin::kit
