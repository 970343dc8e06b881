#include "training/hooks.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "autograd/boundary.hpp"
#include "training/forward_record.hpp"

namespace weft {

Hooks::~Hooks() {
  for (const std::weak_ptr<ForwardRecord>& pending : pending_)
    if (const auto open = pending.lock()) open->abandon();
}

std::shared_ptr<ForwardRecord> Hooks::make_record(bool split) {
  return std::make_shared<ForwardRecord>(*this, split);
}

std::shared_ptr<ForwardRecord> Hooks::make_pending_record() {
  std::erase_if(pending_, [](const auto& p) { return p.expired(); });
  const std::shared_ptr<ForwardRecord> record = make_record();
  pending_.push_back(record);
  return record;
}

void Hooks::forward(weft_unit& unit, State& state, const weft_pass& pass,
                    const std::shared_ptr<ForwardRecord>& record, const Run& run) {
  const bool calls = !strategy_.keeps_hooks();
  if (calls) strategy_.call<&weft_strategy_api::before_forward>(&unit, &pass);
  const bool bounded = record != nullptr && at::GradMode::is_enabled();
  size_t entry = 0;
  if (bounded) {
    entry = record->size();
    record->add(unit);
    insert_boundary(state, UnitSide::kBefore, record.get(),
                    [record, entry] { record->after_backward(entry); });
  }
  const std::vector<at::Tensor*> more = run(state);
  if (bounded)
    insert_boundary(
        state, UnitSide::kAfter, record.get(), [record, entry] { record->before_backward(entry); }, more);
  if (calls) strategy_.call<&weft_strategy_api::after_forward>(&unit, &pass);
}

void Hooks::backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                     const weft_pass& pass, const std::shared_ptr<ForwardRecord>& record,
                     const std::function<void()>& send) {
  const auto run = [&] {
    if (!roots.empty()) torch::autograd::backward(roots, gradients);
    complete(record);
  };
  enclose(pass, run, send);
}

void Hooks::finish_backward(const weft_pass& pass, const ForwardRecord& record) {
  enclose(pass, [&] { record.deferred()->run(); }, {});
}

void Hooks::enclose(const weft_pass& pass, const std::function<void()>& run,
                    const std::function<void()>& send) {
  strategy_.disturb();  // because gradients change from here on
  const bool calls = !strategy_.keeps_hooks();
  strategy_.begin_pass(pass);
  if (calls) strategy_.call<&weft_strategy_api::begin_backward>(&pass);
  in_backward_ = true;
  const auto leave = c10::make_scope_exit([this]() noexcept { in_backward_ = false; });
  shared_gradients_.begin();
  run();
  shared_gradients_.end();
  if (send) send();
  if (!calls) return;
  if (pass.synchronise != 0)
    for (weft_param* param : shared_gradients_.complete())
      strategy_.call<&weft_strategy_api::gradient_ready>(param, &pass);
  strategy_.call<&weft_strategy_api::end_backward>(&pass);
}

void Hooks::before_graph(const std::vector<std::unique_ptr<weft_unit>>& units, const weft_pass& pass) {
  for (const auto& unit : units) {
    strategy_.call<&weft_strategy_api::before_forward>(unit.get(), &pass);
    strategy_.call<&weft_strategy_api::after_forward>(unit.get(), &pass);
  }
}

void Hooks::run_graph(const weft_pass& pass, const std::function<void()>& launch,
                      const Strategy::KeptHooks& after) {
  strategy_.disturb();  // because gradients change from here on
  strategy_.begin_pass(pass);
  strategy_.call<&weft_strategy_api::begin_backward>(&pass);
  launch();
  for (const auto& hook : after) hook();
  strategy_.call<&weft_strategy_api::end_backward>(&pass);
}

void Hooks::before_backward(weft_unit& unit) {
  const weft_pass& pass = strategy_.pass();
  if (trace::on())
    unit_of_trace_ = trace::begin("backward " + unit.unit->name(), "unit",
                                  pass.num_micros > 0 ? static_cast<int64_t>(pass.micro) : -1);
  strategy_.hook<&weft_strategy_api::before_backward>(&unit, unit.recompute);
}

void Hooks::after_backward(weft_unit& unit) {
  strategy_.hook<&weft_strategy_api::after_backward>(&unit);
  if (unit_of_trace_) trace::finish(*std::exchange(unit_of_trace_, std::nullopt));
}

void Hooks::complete_later_forwards(const ForwardRecord& record) {
  for (auto later = pending_.rbegin(); later != pending_.rend(); ++later) {
    const auto open = later->lock();
    if (open.get() == &record) return;
    if (open != nullptr && open->fired_any()) open->complete();
  }
}

// Fires the hooks of units whose boundary backward did not reach, because of integer inputs, frozen prefixes
// or unused outputs. Without a record, does this for every pending forward that backward went through.
void Hooks::complete(const std::shared_ptr<ForwardRecord>& record) {
  if (record != nullptr) return record->complete();
  for (auto pending = pending_.rbegin(); pending != pending_.rend(); ++pending)
    if (const auto open = pending->lock(); open != nullptr && open->fired_any()) open->complete();
  std::erase_if(pending_, [](const auto& p) {
    const auto open = p.lock();
    return open == nullptr || open->fired_any();
  });
}

}  // namespace weft
