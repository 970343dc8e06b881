// One update: the norm of all gradients, whether it is made, and the rounds of the rule.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "device/device.hpp"
#include "device/reading.hpp"
#include "dispatch/operators.hpp"
#include "formula/decision.hpp"
#include "optim/gradient_norm.hpp"
#include "optim/optimizer_state.hpp"
#include "optim/rounds.hpp"
#include "optim/rules.hpp"

namespace weft::optim {

namespace {

using Extra = std::function<std::vector<double>()>;

class Updating {
 public:
  Updating(Optimizer::Shared& shared, double max_norm, device::Reading& reading, const Extra& extra,
           bool guarded)
      : shared_(shared),
        training_(shared.boosted("step")),
        max_norm_(max_norm),
        guarded_(guarded),
        reading_(reading),
        extra_(extra),
        shards_(training_.publish(WEFT_REASON_UPDATE)),
        touched_(training_.take_touched()),
        rounds_(shared, shards_) {
    if (max_norm > 0 || shared.scaler || guarded) norm_.emplace(shards_, shared.norm_type);
    rounds_.measure(reading);
    facts_.assign(touched_.begin(), touched_.end());
    facts_.push_back(training_.shared_gradients().is_pending() ? 1 : 0);
    const bool decides = !norm_ || (norm_->is_of_device() && rounds_.takes_decisions());
    facts_.push_back(decides && !rounds_.measures() && !guarded ? 0 : 1);
  }

  // Returns the decision, and in `sums` those of the numbers of `extra` over all ranks.
  kernels::Decision run(std::vector<double>& sums) {
    // Ranks whose device reduces exchange the facts at once, the others together with the numbers.
    const World& world = training_.world();
    if (world.size() > 1 && device::current().make_backend() == nullptr) return after_reading(true, sums);
    reduce_over_ranks(world, facts_);
    return facts_.back() == 0 ? before_reading(sums) : after_reading(false, sums);
  }

  const std::vector<Shard>& shards() const { return shards_; }

 private:
  // The device decides, so the host launches the update before it waits.
  kernels::Decision before_reading(std::vector<double>& sums) {
    const double clip = accept_facts();
    std::optional<at::Tensor> decision;
    double numbers[3] = {};
    if (norm_) {
      const at::Tensor part = norm_->on_device();
      const ReduceOp op = std::isinf(shared_.norm_type) ? ReduceOp::kMax : ReduceOp::kSum;
      training_.world().communicator().all_reduce(part, op, true).wait();
      decision = call<operators::Decide>(part, shared_.norm_type, max_norm_, clip, loss_scale(),
                                         shared_.scaler.has_value());
      reading_.add(*decision, numbers);
    }
    reading_.begin();
    rounds_.run(facts_.data(), nullptr, clip, decision);
    reading_.read();
    if (numbers[2] != 0) rounds_.take_back();
    sums = extra_();
    reduce_over_ranks(training_.world(), sums);
    return {numbers[0], numbers[1], numbers[2]};
  }

  // The host decides.
  kernels::Decision after_reading(bool with_facts, std::vector<double>& sums) {
    if (norm_) norm_->read(reading_);
    reading_.read();
    std::vector<double> all = {norm_ ? norm_->value() : 0};
    sums = extra_();
    all.insert(all.end(), sums.begin(), sums.end());
    const size_t rule_place = all.size();
    rounds_.append_measured(all);
    const size_t facts_place = all.size();
    if (with_facts) all.insert(all.end(), facts_.begin(), facts_.end());
    reduce_with_norm(training_.world(), all, norm_ ? shared_.norm_type : 2);
    std::copy_n(all.begin() + 1, sums.size(), sums.begin());
    if (with_facts) facts_.assign(all.begin() + static_cast<std::ptrdiff_t>(facts_place), all.end());
    kernels::Decision decision = kernels::decide(all.front(), shared_.norm_type, max_norm_, accept_facts(),
                                                 loss_scale(), shared_.scaler.has_value() || guarded_);
    if (guarded_ && !std::all_of(sums.begin(), sums.end(), [](double sum) { return std::isfinite(sum); }))
      decision.skipped = 1;
    if (decision.skipped == 0) rounds_.run(facts_.data(), all.data() + rule_place, decision.factor);
    return decision;
  }

  double loss_scale() const { return shared_.scaler ? shared_.scaler->scale() : 1; }

  // Returns the factor of clip_grad_by_norm. Throws on every rank if gradients are incomplete.
  double accept_facts() {
    if (facts_[touched_.size()] == 0) return std::exchange(shared_.pending_clip, 1);
    training_.touch(touched_);
    fail(WEFT_FAILED_PRECONDITION,
         "step: the last backward ran under no_sync, so the gradients of parameters that several pipeline "
         "stages use, such as tied embeddings, were never summed over the stages; run the last backward of a "
         "step without it, or zero the gradients");
  }

  Optimizer::Shared& shared_;
  Bindings& training_;
  const double max_norm_;
  const bool guarded_;
  device::Reading& reading_;
  const Extra& extra_;
  const std::vector<Shard> shards_;
  const std::vector<bool> touched_;
  Rounds rounds_;
  std::optional<NormPart> norm_;
  // What the host knows before the device is done: which parameters have a gradient, whether gradients of
  // stages are pending, and whether the update needs numbers that the host has yet to read.
  std::vector<double> facts_;
};

}  // namespace

Optimizer::Shared::Update Optimizer::Shared::update(double limit, device::Reading& reading,
                                                    const Extra& extra, bool guarded) {
  Bindings& boosted_training = boosted("step");
  // Callers and schedules may have changed them.
  for (const Group& group : groups)
    for (const auto& [name, value] : group.options) require_finite(*rule, name, value);
  Update result;
  Updating updating(*this, limit, reading, extra, guarded);
  const kernels::Decision decision = updating.run(result.extra);
  result.norm = decision.norm;
  result.updated = decision.skipped == 0;
  if (result.updated) boosted_training.set_updates(++steps);
  if (boosted_training.checks_update()) verify([&] { boosted_training.check_written(updating.shards()); });
  if (scaler) {
    scaler->update(!result.updated);
    boosted_training.set_loss_scale(scaler->scale());
  }
  boosted_training.values_changed(WEFT_REASON_UPDATE);
  if (result.updated) boosted_training.updated();
  return result;
}

}  // namespace weft::optim
