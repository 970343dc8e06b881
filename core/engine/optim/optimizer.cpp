#include "weft/optim/optimizer.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "device/reading.hpp"
#include "device/tensors.hpp"
#include "optim/gradient_norm.hpp"
#include "optim/optimizer_state.hpp"
#include "optim/rounds.hpp"
#include "optim/rules.hpp"
#include "weft/error.hpp"

namespace weft::optim {

namespace {

void reduce_over_ranks(const Bindings& training, std::vector<double>& values, ReduceOp op) {
  if (training.world().size() == 1) return;
  const at::Tensor sums = at::tensor(values, at::kDouble);
  training.world().communicator().all_reduce(sums, op, true).wait();
  values = device::values_of<double>(sums);
}

// All-reduces `sums`. The part of the norm at `place` becomes the maximum if the norm type is infinite.
void reduce_with_norm(const Bindings& training, std::vector<double>& sums, size_t place, double norm_type) {
  std::vector<double> largest = {std::exchange(sums[place], std::isinf(norm_type) ? 0.0 : sums[place])};
  reduce_over_ranks(training, sums, ReduceOp::kSum);
  if (!std::isinf(norm_type)) return;
  reduce_over_ranks(training, largest, ReduceOp::kMax);
  sums[place] = largest.front();
}

void refuse_pending(Bindings& training, bool is_pending, const std::vector<bool>& touched) {
  if (!is_pending) return;
  training.touch(touched);
  fail(WEFT_FAILED_PRECONDITION,
       "step: the last backward ran under no_sync, so the gradients of parameters that several pipeline "
       "stages use, such as tied embeddings, were never summed over the stages; run the last backward of a "
       "step without it, or zero the gradients");
}

}  // namespace

Optimizer::Optimizer(std::string_view rule, Parameters parameters, Hyper options)
    : Optimizer(rule, std::vector<Group>{Group{std::move(parameters), std::move(options), 0}}) {}

Optimizer::Optimizer(std::string_view name, std::vector<Group> groups) : shared_(std::make_shared<Shared>()) {
  shared_->rule = optim::rule(name);
  for (Group& group : groups) {
    group.options = complete(*shared_->rule, std::move(group.options));
    group.initial_lr = group.options.at("lr");
  }
  shared_->groups = std::move(groups);
}

std::vector<Group>& Optimizer::groups() {
  return shared().groups;
}
const Rule& Optimizer::rule() const {
  return *shared().rule;
}
int64_t Optimizer::steps() const {
  return shared().steps;
}

Optimizer::Shared& Optimizer::shared() const {
  if (shared_ == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "there is no optimizer: make one with weft::optim::AdamW(...)");
  return *shared_;
}

void Optimizer::Shared::attach(std::shared_ptr<Bindings> boosted) {
  if (training != nullptr)
    fail(WEFT_FAILED_PRECONDITION, "the optimizer belongs to a boosted model already; make another");
  group_of.assign(boosted->params().size(), -1);
  std::vector<std::string> known;
  for (const auto& param : boosted->params()) known.push_back(param->name);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const std::string& name : groups[g].parameters.names) {
      const weft_param* param = boosted->find_param(name);
      if (param == nullptr)
        fail(WEFT_NOT_FOUND, "optimizer: {} has no parameter \"{}\"{}", boosted->model().architecture(), name,
             did_you_mean(name, known));
      if (group_of[param->index] >= 0 && group_of[param->index] != static_cast<int>(g))
        fail(WEFT_INVALID_ARGUMENT, "optimizer: parameter {} is in two groups, {} and {}", name,
             group_of[param->index], g);
      group_of[param->index] = static_cast<int>(g);
    }
  }
  training = std::move(boosted);
}

Bindings& Optimizer::Shared::boosted(std::string_view action) const {
  if (training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "{}: the optimizer is not boosted; pass it to Booster::boost first",
         action);
  return *training;
}

Optimizer::Shared::Update Optimizer::Shared::update(double max_norm, device::Reading& reading,
                                                    const std::function<std::vector<double>()>& extra) {
  Bindings& boosted_training = boosted("step");
  // Callers and schedules may have changed them.
  for (const Group& group : groups)
    for (const auto& [name, value] : group.options) require_finite(*rule, name, value);
  const std::vector<Shard> shards = boosted_training.publish();
  const std::vector<bool> touched = boosted_training.take_touched();
  Rounds rounds(*this, shards);
  const bool measured = max_norm > 0 || scaler;
  std::optional<NormPart> norm_part;
  if (measured) norm_part.emplace(shards, norm_type, reading);
  rounds.measure(reading);
  std::vector<double> sums(touched.begin(), touched.end());
  if (!measured && !rounds.measures() && boosted_training.world().size() == 1) {
    // The update depends on nothing that the host reads, so it is launched before the host waits for the
    // loss.
    reading.begin();
    refuse_pending(boosted_training, boosted_training.shared_gradients().is_pending(), touched);
    ++steps;
    rounds.run(sums.data(), nullptr, std::exchange(pending_clip, 1));
    boosted_training.values_changed();
    reading.read();
    return {.updated = true, .norm = 0, .extra = extra()};
  }
  reading.read();

  const size_t norm_place = sums.size();
  sums.push_back(measured ? norm_part->value() : 0);
  const std::vector<double> given = extra();
  sums.insert(sums.end(), given.begin(), given.end());
  const size_t pending_place = sums.size();
  sums.push_back(boosted_training.shared_gradients().is_pending() ? 1 : 0);
  const size_t rule_place = sums.size();
  rounds.append_measured(sums);
  if (measured)
    reduce_with_norm(boosted_training, sums, norm_place, norm_type);
  else
    reduce_over_ranks(boosted_training, sums, ReduceOp::kSum);

  refuse_pending(boosted_training, sums[pending_place] > 0, touched);
  const double scale = scaler ? scaler->scale() : 1;
  const double norm = norm_of_parts(sums[norm_place], norm_type);
  Update result;
  const double* const after_norm = sums.data() + norm_place + 1;
  result.extra.assign(after_norm, after_norm + given.size());
  result.norm = norm / scale;
  result.updated = !scaler || std::isfinite(norm);
  const double clip = max_norm > 0 ? clip_factor(result.norm, max_norm) : 1.0;
  const double factor = clip * std::exchange(pending_clip, 1) / scale;
  if (result.updated) {
    ++steps;
    rounds.run(sums.data(), sums.data() + rule_place, factor);
  }
  if (scaler) {
    scaler->update(!result.updated);
    boosted_training.set_loss_scale(scaler->scale());
  }
  boosted_training.values_changed();
  return result;
}

bool Optimizer::step() {
  device::Reading reading;
  return shared().update(shared().max_norm, reading, [] { return std::vector<double>(); }).updated;
}

void Optimizer::zero_grad() {
  shared().pending_clip = 1;
  shared().boosted("zero_grad").zero_gradients();
}

double Optimizer::clip_grad_by_norm(double max_norm, double norm_type) {
  Bindings& training = shared().boosted("clip_grad_by_norm");
  check_clipping(max_norm, norm_type);
  const std::vector<Shard> shards = training.publish();
  std::vector<double> sums = {counted_norm_part(shards, norm_type)};
  reduce_with_norm(training, sums, 0, norm_type);
  const double norm = norm_of_parts(sums[0], norm_type) / training.loss_scale();
  const double factor = clip_factor(norm, max_norm);
  if (shared().scaler) {
    if (std::isfinite(norm)) shared().pending_clip *= factor;
    return norm;
  }
  scale_gradients(shards, factor);
  return norm;
}

void Optimizer::clip_grad_by_value(double limit) {
  Bindings& training = shared().boosted("clip_grad_by_value");
  if (!(limit > 0))
    fail(WEFT_INVALID_ARGUMENT, "clip_grad_by_value: the limit is {}, must be positive", limit);
  at::NoGradGuard no_grad;
  limit *= training.loss_scale();
  for (const Shard& shard : training.publish())
    if (shard.gradient.defined()) at::Tensor(shard.gradient).clamp_(-limit, limit);
}

}  // namespace weft::optim
