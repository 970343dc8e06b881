// Compares the values of ranks that hold the same elements.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "comm/job.hpp"
#include "device/tensors.hpp"
#include "training/known_parts.hpp"

namespace weft {

namespace {

constexpr int64_t kNothing = std::numeric_limits<int64_t>::min();  // loses against every digest

// Digests of this rank's parts, in one slot for each part into which a plan cuts a parameter: several ranks
// may have the same part. A slot has a digest and its complement. Their maxima over ranks tell whether all
// ranks that filled a slot have the same digest.
class Slots {
 public:
  // Fills the slots of the parts that are known as a whole, one of `parts` for each parameter.
  Slots(const std::vector<std::unique_ptr<weft_param>>& params, const std::vector<KnownPart>& parts)
      : params_(params) {
    for (const auto& param : params) begins_.push_back(std::exchange(size_, size_ + param->num_parts));
    numbers_.assign(static_cast<size_t>(size_ * 2), kNothing);
    for (const auto& param : params) {
      const KnownPart& part = parts[param->index];
      if (!part.is_whole(*param)) continue;
      int64_t* const slot = numbers_.data() + 2 * (begins_[param->index] + param->part);
      slot[0] = static_cast<int64_t>(part.digest), slot[1] = ~slot[0];
    }
  }

  // Returns the first slot in which the ranks have other values, or nothing. Collective.
  std::optional<int64_t> differing(const Communicator& ranks) const {
    const at::Tensor largest = at::tensor(numbers_, at::kLong);
    ranks.all_reduce(largest, ReduceOp::kMax, true).wait();
    const std::vector<int64_t> numbers = device::values_of<int64_t>(largest);
    const int64_t* found = numbers.data();
    for (int64_t s = 0; s < size_; ++s, found += 2)
      if (found[0] != ~found[1] && (found[0] != kNothing || found[1] != kNothing)) return s;
    return std::nullopt;
  }

  // Returns true if these ranks have other values in one slot. Collective.
  bool differs(const Communicator& ranks, int64_t slot) const {
    const int64_t* const own = numbers_of(slot);
    const at::Tensor largest = at::tensor({own[0], own[1]}, at::kLong);
    ranks.all_reduce(largest, ReduceOp::kMax, true).wait();
    const std::vector<int64_t> found = device::values_of<int64_t>(largest);
    return found[0] != ~found[1] && (found[0] != kNothing || found[1] != kNothing);
  }

  const weft_param& parameter(int64_t slot) const {
    const auto next = std::upper_bound(begins_.begin(), begins_.end(), slot);
    return *params_[static_cast<size_t>(next - begins_.begin()) - 1];
  }
  bool holds(int64_t slot) const { return numbers_of(slot)[0] == ~numbers_of(slot)[1]; }
  std::string digest(int64_t slot) const {
    return fmt::format("{:x}", static_cast<uint64_t>(numbers_of(slot)[0]));
  }

 private:
  const int64_t* numbers_of(int64_t slot) const { return numbers_.data() + 2 * slot; }

  const std::vector<std::unique_ptr<weft_param>>& params_;
  std::vector<int64_t> begins_;
  int64_t size_ = 0;
  std::vector<int64_t> numbers_;  // two for each slot
};

// Returns "ranks 0 and 2 have one value, rank 1 has another". Collective.
std::string holders_text(const Communicator& ranks, const Slots& slots, int64_t slot) {
  const nlohmann::json own = {comm::own_rank(), slots.holds(slot) ? slots.digest(slot) : ""};
  std::vector<std::pair<std::string, std::vector<int>>> holders;
  for (const std::string& text : gather_from_every_rank(ranks, [&] { return own.dump(); })) {
    const nlohmann::json other = nlohmann::json::parse(text);
    const auto digest = other[1].get<std::string>();
    if (digest.empty()) continue;
    auto known =
        std::find_if(holders.begin(), holders.end(), [&](const auto& pair) { return pair.first == digest; });
    if (known == holders.end()) known = holders.emplace(holders.end(), digest, std::vector<int>());
    known->second.push_back(other[0].get<int>());
  }
  std::vector<std::string> parts;
  for (const auto& [digest, members] : holders)
    parts.push_back(fmt::format("{} {} {}", ranks_text(members), members.size() == 1 ? "has" : "have",
                                parts.empty() ? "one value" : "another"));
  return fmt::format("{}", fmt::join(parts, ", "));
}

bool is_from_outside(Bindings::Origin origin) {
  return origin == Bindings::Origin::kBoosted || origin == Bindings::Origin::kLoaded;
}

std::string remedy_for(Bindings::Origin origin, const std::string& strategy) {
  using Origin = Bindings::Origin;
  if (origin == Origin::kBoosted)
    return "give every rank the same files of weights and the same seed, or set the option "
           "sync_module_states, if the strategy has it";
  if (origin == Origin::kLoaded)
    return "give every rank the same files, and load them again: until then the ranks hold different values";
  if (origin == Origin::kTakenOver)
    return fmt::format(
        "every rank was given the same values, and strategy {} must publish them as they are. The job "
        "goes on under the strategy that it had",
        strategy);
  if (origin == Origin::kMerged)
    return fmt::format(
        "merge_replicas of strategy {} must write the same values on every rank, made of those of all "
        "replicas",
        strategy);
  return fmt::format(
      "strategy {} let them diverge in training. Every rank must sum each gradient over gradient_axes and "
      "update its copy alike. {}; if unlike processors round differently, check_agreement -1 leaves this "
      "comparison out",
      strategy,
      origin == Origin::kSaved ? "Nothing was saved; continue from an earlier checkpoint"
                               : "Continue from an earlier checkpoint");
}

// Where the ranks that sum the gradient of a parameter have the same values of it, but other ranks have not.
// The strategy did what it must.
std::string remedy_for_policy(const weft_param& param) {
  return fmt::format(
      "the ranks that sum its gradient agree, so the strategy did what it must, but ranks of another axis "
      "computed another gradient: the shard policy leaves {0} whole on all of them, and its layer sees only "
      "a "
      "part of the features or positions there. Give the layer an entry in the policy that splits {0} or "
      "sums "
      "its gradient, or use it outside of tensor-parallel regions",
      param.name);
}

// Collective.
std::string difference_text(const weft_param& param, const Communicator& ranks, const Slots& slots,
                            int64_t slot) {
  return fmt::format("{} is not the same on the ranks that hold the same elements of it: {}", param.name,
                     holders_text(ranks, slots, slot));
}

// Digests of the parts that the ranks publish.
std::vector<KnownPart> value_digests(Bindings& bindings) {
  return known_parts(bindings, [](const Shard& shard, KnownPart& part) {
    part.digest += digest_of(shard.value, shard.begin, shard.value.scalar_type());
  });
}

}  // namespace

// Compares the ranks that hold the same elements of one of several replicas that differ.
void Bindings::check_local_replicas(Origin origin) {
  const Communicator& ranks = comm(without(mesh_.open_axes(), local_axes_))->communicator;
  const Slots slots(params_, value_digests(*this));
  const std::optional<int64_t> slot = ranks.size() == 1 ? std::nullopt : slots.differing(ranks);
  const std::string difference =
      slot ? difference_text(slots.parameter(*slot), ranks, slots, *slot) : std::string();
  on_every_rank(world_.communicator(), [&] {
    if (slot) fail(WEFT_INTERNAL, "{}; {}", difference, remedy_for(origin, strategy_name()));
  });
}

void Bindings::check_replicas(Origin origin) {
  if (world_.size() == 1) return;
  if (differs_ && local_axes_ != 0) return check_local_replicas(origin);
  const Slots slots(params_, value_digests(*this));
  const std::optional<int64_t> slot = slots.differing(world_.communicator());
  if (!slot) return;
  const weft_param& param = slots.parameter(*slot);
  const std::string difference = difference_text(param, world_.communicator(), slots, *slot);
  const bool trained = origin == Origin::kTrained || origin == Origin::kSaved;
  bool is_of_strategy = true;
  if (trained && !param.frozen && !param.across_stages) {
    const bool differs = slots.differs(comm(param.gradient_axes)->communicator, *slot);
    const at::Tensor any = at::tensor({int64_t{differs}}, at::kLong);
    world_.communicator().all_reduce(any, ReduceOp::kMax, true).wait();
    is_of_strategy = device::value_of<int64_t>(any) != 0;
  }
  on_every_rank(world_.communicator(), [&] {
    fail(is_from_outside(origin) ? WEFT_FAILED_PRECONDITION : WEFT_INTERNAL, "{}; {}", difference,
         is_of_strategy ? remedy_for(origin, strategy_name()) : remedy_for_policy(param));
  });
}

}  // namespace weft
