#include "optim/rounds.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "memory/pools.hpp"
#include "optim/rules.hpp"

namespace weft::optim {

Rounds::Rounds(Optimizer::Shared& shared, const std::vector<Shard>& shards)
    : shared_(shared), shards_(shards), parameters_(shared.group_of.size()) {
  for (size_t p = 0; p < parameters_.size(); ++p) {
    parameters_[p].shape = shared.training->params()[p]->shape;
    parameters_[p].dtype = computing_dtype(shared.training->master_dtype());
  }
}

namespace {

// Convert a gradient, or a value, to the dtype that rules compute in.
void convert_gradient(Slice& slice) {
  slice.gradient = slice.gradient.to(computing_dtype(slice.value.scalar_type()));
}
void convert_value(Slice& slice) {
  const at::ScalarType dtype = computing_dtype(slice.value.scalar_type());
  if (slice.value.scalar_type() == dtype) return;
  const at::Tensor converted = memory::empty_like(slice.value, dtype);
  slice.value = converted.copy_(slice.value);
}

}  // namespace

Slice Rounds::slice_of(const Shard& shard) {
  if (!device::is_on_host(shard.value) && !shared_.rule->runs_on(shard.value))
    fail(WEFT_UNIMPLEMENTED,
         "optimizer {}: it has kernels for values in host memory alone, but those of {} are on {}; choose a "
         "strategy that offloads the optimizer, or one of adam, adamw and sgd, which run on every device",
         shared_.rule->name(), shard.param->name, shard.value.device().str());
  Slice slice;
  slice.value = shard.value;
  slice.gradient = shard.gradient;
  slice.working = shard.working;
  slice.parameter = &parameters_[shard.param->index];
  slice.cut = &shard.param->cut;
  slice.begin = shard.begin;
  slice.counted_begin = shard.counted_begin;
  slice.counted_count = shard.counted_count;
  return slice;
}

void Rounds::measure(device::Reading& reading) {
  const at::NoGradGuard no_grad;
  for (size_t p = 0; p < parameters_.size(); ++p)
    if (shared_.group_of[p] >= 0)
      parameters_[p].partial.assign(static_cast<size_t>(shared_.rule->num_sums(0, parameters_[p].shape)),
                                    0.0);
  for (const Shard& shard : shards_) {
    const size_t p = shard.param->index;
    if (parameters_[p].partial.empty() || !shard.gradient.defined() || shard.counted_count == 0) continue;
    Slice slice = slice_of(shard);
    convert_gradient(slice);
    convert_value(slice);
    shared_.rule->measure(slice, shared_.groups[static_cast<size_t>(shared_.group_of[p])].options, reading);
  }
}

bool Rounds::measures() const {
  return std::any_of(parameters_.begin(), parameters_.end(),
                     [](const Whole& parameter) { return !parameter.partial.empty(); });
}

void Rounds::append_measured(std::vector<double>& sums) const {
  for (const Whole& parameter : parameters_)
    sums.insert(sums.end(), parameter.partial.begin(), parameter.partial.end());
}

bool Rounds::takes_decisions() const {
  return shared_.rule->takes_decisions() &&
         std::none_of(shards_.begin(), shards_.end(), [](const Shard& shard) {
           return shard.gradient.defined() && device::is_on_host(shard.value);
         });
}

std::vector<UpdateBatch> Rounds::make_batches(const double* touched, double factor,
                                              const std::optional<at::Tensor>& decision) {
  std::map<std::pair<int, int64_t>, UpdateBatch> batches;
  const auto batch_of = [&](size_t p) -> UpdateBatch* {
    const int group = shared_.group_of[p];
    if (group < 0 || !(touched[p] > 0)) return nullptr;
    const int64_t step = shared_.parameters[static_cast<uint32_t>(p)].steps;
    const Hyper& options = shared_.groups[static_cast<size_t>(group)].options;
    return &batches.try_emplace({group, step}, UpdateBatch{options, step, factor, {}, {}, decision})
                .first->second;
  };
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (shared_.group_of[p] < 0 || !(touched[p] > 0)) continue;
    ParameterState& state = shared_.parameters[static_cast<uint32_t>(p)];
    ++state.steps;
    updated_.push_back(static_cast<uint32_t>(p));
    parameters_[p].state = &state.whole;
    batch_of(p)->parameters.push_back(&parameters_[p]);
  }
  for (const Shard& shard : shards_) {
    UpdateBatch* const batch = batch_of(shard.param->index);
    if (batch == nullptr || !shard.gradient.defined() || shard.count == 0) continue;
    batch->slices.push_back(slice_of(shard));
    batch->slices.back().state = &shared_.ranges[{shard.param->index, shard.begin}];
  }
  std::vector<UpdateBatch> result;
  for (auto& entry : batches) result.push_back(std::move(entry.second));
  return result;
}

void Rounds::sum_over_ranks(std::vector<UpdateBatch>& batches) const {
  std::vector<double> all;
  for (const UpdateBatch& batch : batches)
    for (const Whole* parameter : batch.parameters)
      all.insert(all.end(), parameter->partial.begin(), parameter->partial.end());
  const World& world = shared_.training->world();
  if (world.size() > 1 && !all.empty()) {
    const at::Tensor sums = at::from_blob(all.data(), {static_cast<int64_t>(all.size())}, at::kDouble);
    world.communicator().all_reduce(sums, ReduceOp::kSum, true).wait();
  }
  const double* next = all.data();
  for (UpdateBatch& batch : batches)
    for (Whole* parameter : batch.parameters) {
      parameter->sums.emplace_back(next, next + parameter->partial.size());
      next += parameter->partial.size();
    }
}

// Updates values in half precision, one parameter at a time: converts them to fp32 for the rule and rounds
// the result to nearest even. Keeps converted gradients if later rounds need them.
void Rounds::update_half(int round, UpdateBatch& batch, device::Reading& reading) const {
  const Rule& rule = *shared_.rule;
  std::map<const Whole*, std::vector<Slice*>> slices;
  for (Slice& slice : batch.slices) slices[slice.parameter].push_back(&slice);
  for (Whole* parameter : batch.parameters) {
    UpdateBatch alone{batch.options, batch.step, batch.factor, {}, {parameter}, batch.decision};
    for (Slice* slice : slices[parameter]) {
      if (rule.rounds() > 1) convert_gradient(*slice);
      Slice& converted = alone.slices.emplace_back(*slice);
      convert_gradient(converted);
      convert_value(converted);
    }
    rule.update(round, alone, reading);
    for (size_t i = 0; i < alone.slices.size(); ++i) slices[parameter][i]->value.copy_(alone.slices[i].value);
  }
}

// Converts one gradient at a time to the dtype of the rule, unless the rule takes half precision or later
// rounds need all of them.
void Rounds::update(int round, UpdateBatch& batch, device::Reading& reading) const {
  const Rule& rule = *shared_.rule;
  if (at::isReducedFloatingType(shared_.training->master_dtype())) return update_half(round, batch, reading);
  if (rule.rounds() > 1) {
    for (Slice& slice : batch.slices) convert_gradient(slice);
    return rule.update(round, batch, reading);
  }
  UpdateBatch alone{batch.options, batch.step, batch.factor, {}, batch.parameters, batch.decision};
  const auto differs = [&](const Slice& slice) {
    return !rule.takes_half_gradients() && slice.gradient.scalar_type() != slice.value.scalar_type();
  };
  for (const Slice& slice : batch.slices) {
    if (!differs(slice)) continue;
    alone.slices = {slice};
    convert_gradient(alone.slices.front());
    rule.update(round, alone, reading);
  }
  std::erase_if(batch.slices, differs);
  rule.update(round, batch, reading);
}

namespace {

struct WorkingCopies {
  std::vector<at::Tensor> values, working;
};

// Returns the working copies of a batch that the rule does not fill.
WorkingCopies left_to_host(const Rule& rule, const UpdateBatch& batch) {
  WorkingCopies left;
  for (const Slice& slice : batch.slices) {
    if (!slice.working.defined() || (rule.fills_working() && slice.value.scalar_type() == at::kFloat))
      continue;
    left.values.push_back(slice.value);
    left.working.push_back(slice.working);
  }
  return left;
}

}  // namespace

void Rounds::take_back() {
  for (const uint32_t p : updated_) {
    if (--shared_.parameters[p].steps > 0) continue;
    // States without an update are made again by the next one, which must be the first.
    shared_.parameters.erase(p);
    for (const Shard& shard : shards_)
      if (shard.param->index == p) shared_.ranges.erase({p, shard.begin});
  }
}

void Rounds::run(const double* touched, const double* measured, double factor,
                 const std::optional<at::Tensor>& decision) {
  const at::NoGradGuard no_grad;
  const Rule& rule = *shared_.rule;
  for (Whole& parameter : parameters_) {
    parameter.sums.emplace_back(measured, measured + parameter.partial.size());
    measured += parameter.partial.size();
  }
  std::vector<UpdateBatch> batches = make_batches(touched, factor, decision);
  for (int round = 1; round <= rule.rounds(); ++round) {
    device::Reading reading;
    for (UpdateBatch& batch : batches) {
      for (Whole* parameter : batch.parameters)
        parameter->partial.assign(
            round < rule.rounds() ? static_cast<size_t>(rule.num_sums(round, parameter->shape)) : 0, 0.0);
      const auto [values, working] = round == rule.rounds() ? left_to_host(rule, batch) : WorkingCopies();
      update(round, batch, reading);
      if (!working.empty()) at::_foreach_copy_(working, values);
    }
    reading.read();
    if (round < rule.rounds()) sum_over_ranks(batches);
  }
}

}  // namespace weft::optim
