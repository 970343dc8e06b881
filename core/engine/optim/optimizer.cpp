#include "weft/optim/optimizer.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.hpp"
#include "optim/gradient_norm.hpp"
#include "optim/optimizer_state.hpp"
#include "optim/rules.hpp"
#include "weft/error.hpp"

namespace weft::optim {

namespace {

Training& boosted(const Optimizer::Shared& shared, const char* what) {
  if (shared.training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "{} needs an optimizer that was boosted: pass it to Booster::boost first",
         what);
  return *shared.training;
}

// Multiplier that brings `norm` down to `max_norm`, as torch.nn.utils.clip_grad_norm_.
double clip_factor(double norm, double max_norm) {
  return std::min(1.0, max_norm / (norm + 1e-6));
}

void sum_over_ranks(const Training& training, std::vector<double>& values) {
  if (training.world().size() == 1) return;
  const at::Tensor sums = at::tensor(values, at::kDouble);
  training.world().communicator().all_reduce(sums, ReduceOp::kSum, true).wait();
  values.assign(sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel());
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

void Optimizer::Shared::attach(std::shared_ptr<Training> boosted) {
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

Optimizer::Shared::Update Optimizer::Shared::update(double max_norm, std::vector<double> extra) {
  Training& boosted_training = boosted(*this, "step");
  const std::vector<Shard> shards = boosted_training.publish();
  const std::vector<bool> touched = boosted_training.take_touched();
  std::vector<double> sums(touched.begin(), touched.end());
  sums.push_back(max_norm > 0 ? counted_sum_of_squares(shards) : 0.0);
  sums.insert(sums.end(), extra.begin(), extra.end());
  sum_over_ranks(boosted_training, sums);

  Update result;
  result.extra.assign(sums.end() - static_cast<int64_t>(extra.size()), sums.end());
  result.norm = std::sqrt(sums[touched.size()]);
  const double factor = max_norm > 0 ? clip_factor(result.norm, max_norm) : 1.0;
  ++steps;

  // Slices that share their options and their number of updates go to the rule together.
  std::map<std::pair<int, int64_t>, std::vector<Slice>> batches;
  for (const Shard& shard : shards) {
    const int group = group_of[shard.param->index];
    if (group < 0 || !shard.gradient.defined() || shard.count == 0 || !(sums[shard.param->index] > 0))
      continue;
    RangeState& state = states[{shard.param->index, shard.begin}];
    ++state.steps;
    batches[{group, state.steps}].push_back({shard.value, shard.gradient, &state.tensors});
  }
  at::NoGradGuard no_grad;
  for (auto& [key, slices] : batches)
    rule->update(slices, groups[static_cast<size_t>(key.first)].options, key.second, factor);
  boosted_training.values_changed();
  return result;
}

bool Optimizer::step() {
  return shared().update(0, {}).updated;
}

void Optimizer::zero_grad() {
  boosted(shared(), "zero_grad").zero_gradients();
}

double Optimizer::clip_grad_by_norm(double max_norm) {
  Training& training = boosted(shared(), "clip_grad_by_norm");
  if (!(max_norm > 0))
    fail(WEFT_INVALID_ARGUMENT, "clip_grad_by_norm: the norm is {}, must be positive", max_norm);
  const std::vector<Shard> shards = training.publish();
  std::vector<double> sums = {counted_sum_of_squares(shards)};
  sum_over_ranks(training, sums);
  const double norm = std::sqrt(sums[0]), factor = clip_factor(norm, max_norm);
  at::NoGradGuard no_grad;
  if (factor < 1)
    for (const Shard& shard : shards)
      if (shard.gradient.defined()) at::Tensor(shard.gradient).mul_(factor);
  return norm;
}

void Optimizer::clip_grad_by_value(double limit) {
  Training& training = boosted(shared(), "clip_grad_by_value");
  if (!(limit > 0))
    fail(WEFT_INVALID_ARGUMENT, "clip_grad_by_value: the limit is {}, must be positive", limit);
  at::NoGradGuard no_grad;
  for (const Shard& shard : training.publish())
    if (shard.gradient.defined()) at::Tensor(shard.gradient).clamp_(-limit, limit);
}

}  // namespace weft::optim
