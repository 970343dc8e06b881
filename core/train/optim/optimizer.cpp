#include "weft/optim/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "device/reading.hpp"
#include "formula/decision.hpp"
#include "optim/gradient_norm.hpp"
#include "optim/optimizer_state.hpp"
#include "optim/rules.hpp"
#include "weft/error.hpp"

namespace weft::optim {

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
  if (boosted->local_axes() != 0 && rule->rounds() > 1)
    fail(
        WEFT_INVALID_ARGUMENT,
        "{} lets replicas differ between two merges, but {} computes with sums over a whole parameter, which "
        "they would add up across replicas; choose adamw, sgd, lion or another rule that computes by element",
        boosted->strategy_name(), rule->name());
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
  training->set_updates(steps);
}

Bindings& Optimizer::Shared::boosted(std::string_view action) const {
  if (training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "{}: the optimizer is not boosted; pass it to Booster::boost first",
         action);
  return *training;
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
  const std::vector<Shard> shards = training.publish(WEFT_REASON_UPDATE);
  std::vector<double> sums = {counted_norm_part(shards, norm_type)};
  reduce_with_norm(training.world(), sums, norm_type);
  const double norm = kernels::norm_of(sums[0], norm_type) / training.loss_scale();
  const double factor = kernels::clip_factor(norm, max_norm);
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
  for (const Shard& shard : training.publish(WEFT_REASON_UPDATE))
    if (shard.gradient.defined()) at::Tensor(shard.gradient).clamp_(-limit, limit);
}

}  // namespace weft::optim
