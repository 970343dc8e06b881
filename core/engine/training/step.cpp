#include "training/step.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "autograd/boundary.hpp"
#include "autograd/recompute.hpp"
#include "error_sink.hpp"
#include "training/services.hpp"

namespace weft {

double Training::StepLoss::total() const {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

namespace {

// While it lives, operations of this thread that gain from it compute in a half-precision dtype. Casts of
// weights are kept until the outermost one ends.
class Autocast {
 public:
  explicit Autocast(std::optional<at::ScalarType> dtype) : active_(dtype) {
    if (!active_) return;
    was_enabled_ = at::autocast::is_autocast_enabled(at::kCPU);
    before_ = at::autocast::get_autocast_dtype(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, *dtype);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!active_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, was_enabled_);
    at::autocast::set_autocast_dtype(at::kCPU, before_);
  }
  Autocast(const Autocast&) = delete;

 private:
  bool active_, was_enabled_ = false;
  at::ScalarType before_ = at::kFloat;
};

State with_floating(State state, const auto& wanted, at::ScalarType dtype) {
  for (const auto& [name, tensor] : State(state))
    if (tensor.defined() && wanted(tensor.scalar_type())) state.set(name, tensor.to(dtype));
  return state;
}

}  // namespace

State Training::input(const Batch& batch) const {
  State state = model_->input(batch);
  if (!options_.cast_inputs) return state;
  return with_floating(
      std::move(state), [](at::ScalarType type) { return at::isFloatingType(type); }, dtype());
}

State Training::outputs(const State& last) const {
  State outputs = model_->outputs(last);
  if (!options_.outputs_fp32) return outputs;
  return with_floating(std::move(outputs), &at::isReducedFloatingType, at::kFloat);
}

void Training::forward_unit(weft_unit& unit, State& state, const std::shared_ptr<ForwardRecord>& record) {
  fire_before_forward(unit);
  const bool hooks = record != nullptr && at::GradMode::is_enabled();
  size_t entry = 0;
  if (hooks) {
    entry = record->size();
    record->add(unit);
    insert_boundary(state, [record, entry] { record->after_backward(entry); });
  }
  const auto run = [u = unit.unit, dtype = options_.autocast, plan = plan_.get(),
                    lengths = plan_ ? plan_->lengths() : std::vector<int64_t>()](State& s) {
    const Autocast autocast(dtype);
    if (plan != nullptr) plan->set_lengths(lengths);
    u->forward(s);
  };
  if (unit.recompute && hooks)
    run_recomputed(unit.unit->name(), run, state);
  else
    run(state);
  if (hooks) insert_boundary(state, [record, entry] { record->before_backward(entry); });
  fire_after_forward(unit);
}

void Training::complete_later_forwards(const ForwardRecord& record) {
  for (auto later = pending_.rbegin(); later != pending_.rend(); ++later) {
    const auto open = later->lock();
    if (open.get() == &record) return;
    if (open != nullptr && open->fired_any()) open->complete();
  }
}

// Units whose boundary never fired (integer inputs, frozen prefixes, outputs that nobody used). In the
// caller's own loop: of every forward that this backward went through.
void Training::complete_records(const std::shared_ptr<ForwardRecord>& record) {
  if (record != nullptr) return record->complete();
  for (auto pending = pending_.rbegin(); pending != pending_.rend(); ++pending)
    if (const auto open = pending->lock(); open != nullptr && open->fired_any()) open->complete();
  std::erase_if(pending_, [](const auto& p) {
    const auto open = p.lock();
    return open == nullptr || open->fired_any();
  });
}

void Training::run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                            const weft_backward_info& info, const std::shared_ptr<ForwardRecord>& record) {
  fire_begin_backward(info);
  in_backward_ = true;
  const auto leave = c10::make_scope_exit([this]() noexcept { in_backward_ = false; });
  if (!roots.empty()) torch::autograd::backward(roots, gradients);
  complete_records(record);
  fire_end_backward(info);
}

void Training::drive(weft_step& step) {
  if (api_->run_step != nullptr) {
    disturbed_ = true;
    ErrorSink error;
    error.check(api_->run_step(strategy_, &step, error), strategy_name_);
    check_driven(step);
    return;
  }
  const weft_step_services& services = *step_services();
  ErrorSink error;
  for (uint32_t micro = 0; micro < step.micro.size(); ++micro) {
    weft_state state{input(step.micro[micro].batch)};
    for (const auto& unit : units_) error.check(services.forward(&step, micro, unit.get(), &state, error));
    error.check(services.finish(&step, micro, &state, error));
    state.state = State();
    if (step.training) error.check(services.backward(&step, micro, nullptr, nullptr, error));
  }
}

namespace {

// Divides each term of the loss by its count over all micro-batches and ranks.
void scale_terms(weft_step& step) {
  const Training& training = *step.owner;
  std::vector<double> counts;
  for (const MicroBatch& micro : step.micro) {
    const Batch& batch = micro.batch;
    const std::vector<nn::LossCount> terms = training.model().counts(batch);
    if (terms.empty())
      throw Error(WEFT_INVALID_ARGUMENT,
                  training.model().architecture() +
                      ": the batch has no labels to train on; give the model's labels or a criterion");
    if (step.names.empty()) counts.resize(terms.size());
    if (terms.size() != counts.size())
      throw Error(WEFT_INVALID_ARGUMENT,
                  training.model().architecture() + ": the micro-batches have labels for " +
                      std::to_string(counts.size()) + " and for " + std::to_string(terms.size()) +
                      " terms of the loss; give all of them the same labels");
    for (size_t t = 0; t < terms.size(); ++t) {
      if (!batch.empty) counts[t] += terms[t].count;
      if (step.names.size() <= t) step.names.push_back(terms[t].name);
    }
  }
  if (training.mesh().summing_size() > 1) {
    const at::Tensor sums = at::tensor(counts, at::kDouble);
    step.owner->comm(1u << WEFT_AXIS_DATA | 1u << WEFT_AXIS_REPLICA)
        ->communicator.all_reduce(sums, ReduceOp::kSum, true)
        .wait();
    counts.assign(sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel());
  }
  for (size_t t = 0; t < counts.size(); ++t) {
    if (!(counts[t] > 0))
      throw Error(WEFT_INVALID_ARGUMENT,
                  training.model().architecture() + ": no label of \"" + step.names[t] +
                      "\" counts in the global batch: the mean over none is undefined");
    step.scales.push_back(1 / counts[t]);
  }
}

}  // namespace

Training::StepLoss Training::run_step(const std::vector<Batch>& micro_batches, const Criterion& criterion) {
  return guarded_step([&] {
    weft_step step;
    step.owner = this;
    step.synchronise_last = synchronise_;
    for (const Batch& batch : micro_batches) step.micro.emplace_back().batch = batch;
    step.criterion = criterion;
    if (criterion) {
      step.names = {"loss"};
      step.scales = {1.0 /
                     (static_cast<double>(mesh_.summing_size()) * static_cast<double>(micro_batches.size()))};
    } else {
      scale_terms(step);
    }
    step.parts.resize(step.scales.size());
    // From here on other ranks expect this one to go on.
    disturbed_ = mesh_.open_axes() != 0;
    at::AutoGradMode with_gradients(true);
    drive(step);
    // Ranks that split layers have the same loss; one of them counts.
    if (!mesh_.speaks_for_loss()) std::fill(step.parts.begin(), step.parts.end(), 0.0);
    return StepLoss{step.names, step.parts};
  });
}

Training::Forward Training::run_forward(const Batch& batch) {
  return guarded_step([&] {
    weft_step step;
    step.owner = this;
    step.training = false;
    step.micro.emplace_back().batch = batch;
    step.forwards.resize(1);
    at::NoGradGuard no_grad;
    drive(step);
    return std::move(step.forwards.front());
  });
}

State Training::forward(const Batch& batch) {
  return guarded_step([&] {
    std::shared_ptr<ForwardRecord> record;
    if (at::GradMode::is_enabled()) {
      record = std::make_shared<ForwardRecord>(*this);
      std::erase_if(pending_, [](const auto& p) { return p.expired(); });
      pending_.push_back(record);
    }
    State state = input(batch);
    for (const auto& unit : units_) forward_unit(*unit, state, record);
    return outputs(state);
  });
}

void Training::backward(const at::Tensor& loss) {
  if (!loss.defined() || loss.numel() != 1)
    throw Error(WEFT_INVALID_ARGUMENT,
                "backward needs a loss of one element, got " +
                    (loss.defined() ? std::to_string(loss.numel()) : std::string("no tensor")));
  guarded_step([&] {
    const weft_backward_info info{sizeof(info), 0, 0, synchronise_, 0};
    // The caller's loss is a mean over its own samples; strategies sum over the data axes.
    const double factor = loss_scale_ / static_cast<double>(mesh_.summing_size());
    const at::Tensor scaled = factor == 1 ? loss : loss * factor;
    run_backward({scaled}, {at::Tensor()}, info, nullptr);
    return 0;
  });
}

namespace {

// Zero, with the graph of everything that `state` holds.
at::Tensor zero_of(const State& state) {
  at::Tensor zero;
  for (const auto& [name, tensor] : state) {
    if (!tensor.defined() || !tensor.requires_grad()) continue;
    const at::Tensor none = tensor.flatten().narrow(0, 0, 0).sum();
    zero = zero.defined() ? zero + none : none;
  }
  return zero.defined() ? zero : at::zeros({});
}

}  // namespace

struct StepServices {
  static void finish(weft_step& step, uint32_t micro, State& last) {
    const nn::Model& model = step.owner->model();
    const Batch& batch = step.micro[micro].batch;
    if (std::exchange(step.micro[micro].finished, true))
      throw Error(WEFT_FAILED_PRECONDITION, "micro-batch " + std::to_string(micro) + " is finished already");
    if (!step.training) {
      Training::Forward& forward = step.forwards[micro];
      forward.outputs = step.owner->outputs(last);
      forward.counts = model.counts(batch);
      if (!forward.counts.empty()) forward.terms = model.loss(last, batch);
      return;
    }
    std::vector<at::Tensor> sums;
    if (step.criterion && batch.empty) {
      sums = {zero_of(last)};  // a mean over no label would be NaN, and so would zero times it
    } else if (step.criterion) {
      sums = {step.criterion(step.owner->outputs(last), batch)};
    } else {
      for (const nn::LossTerm& term : model.loss(last, batch))
        sums.push_back(term.weight == 1 ? term.sum : term.sum * term.weight);
    }
    if (sums.size() != step.scales.size())
      throw Error(WEFT_INTERNAL, model.architecture() + ": " + std::to_string(sums.size()) +
                                     " loss terms, but " + std::to_string(step.scales.size()) + " counts");
    at::Tensor total;
    for (size_t t = 0; t < sums.size(); ++t) {
      const at::Tensor scaled = sums[t] * (batch.empty ? 0.0 : step.scales[t]);
      step.parts[t] += scaled.item<double>();
      total = total.defined() ? total + scaled : scaled;
    }
    const double scale = step.owner->loss_scale();
    step.micro[micro].loss = scale == 1 ? total : total * scale;
  }

  static void backward(weft_step& step, uint32_t index, weft_state* outputs, weft_state* gradients) {
    MicroBatch& micro = step.micro[index];
    const std::string what = "backward of micro-batch " + std::to_string(index);
    if (!step.training) throw Error(WEFT_FAILED_PRECONDITION, what + ": this step only goes forward");
    if (micro.pieces.empty())
      throw Error(WEFT_FAILED_PRECONDITION, what + ": nothing went forward that has not been backward");
    if ((outputs == nullptr) != (gradients == nullptr))
      throw Error(WEFT_INVALID_ARGUMENT,
                  what + " needs outputs and gradients, or neither to begin with the loss");
    std::vector<at::Tensor> roots, grads;
    if (outputs == nullptr) {
      if (!micro.loss.defined())
        throw Error(WEFT_FAILED_PRECONDITION, what + " from the loss needs finish before it");
      roots = {std::exchange(micro.loss, at::Tensor())};
      grads = {at::Tensor()};
    } else {
      for (const auto& [name, tensor] : outputs->state) {
        if (!tensor.defined() || !tensor.requires_grad()) continue;
        roots.push_back(tensor);
        grads.push_back(gradients->state.at(name));
      }
    }
    // The last in the strategy's order, which need not be that of the micro-batches.
    const Piece piece = std::move(micro.pieces.back());
    micro.pieces.pop_back();
    micro.backward_begun = true;
    const bool last = std::all_of(step.micro.begin(), step.micro.end(),
                                  [](const MicroBatch& m) { return m.backward_begun && m.pieces.empty(); });
    const weft_backward_info info{sizeof(info), index, static_cast<uint32_t>(step.micro.size()),
                                  last && step.synchronise_last, 0};
    step.owner->run_backward(roots, grads, info, piece.record);
  }

  static void check_micro(const weft_step& step, uint32_t micro) {
    if (micro >= step.micro.size())
      throw Error(WEFT_OUT_OF_RANGE,
                  "micro-batch " + std::to_string(micro) + " of " + std::to_string(step.micro.size()));
  }

  static void check_unit(const weft_step& step, const weft_unit* unit) {
    if (unit == nullptr || unit->training != step.owner)
      throw Error(WEFT_INVALID_ARGUMENT, "the unit is not one of this training");
  }

  static weft_status forward(weft_step* step, uint32_t micro, weft_unit* unit, weft_state* inout,
                             weft_error* error) {
    return guarded(error, [&] {
      check_micro(*step, micro);
      check_unit(*step, unit);
      std::shared_ptr<ForwardRecord> record;
      if (step->training) {
        std::vector<Piece>& pieces = step->micro[micro].pieces;
        if (pieces.empty() || pieces.back().state != inout || pieces.back().next_unit != unit->index)
          pieces.push_back({inout, 0, std::make_shared<ForwardRecord>(*step->owner)});
        pieces.back().next_unit = unit->index + 1;
        record = pieces.back().record;
      }
      ++step->micro[micro].forwards;
      step->owner->forward_unit(*unit, inout->state, record);
    });
  }

  static weft_status boundary(weft_step* step, uint32_t micro, weft_unit* entering, weft_state** own,
                              weft_error* error) {
    return guarded(error, [&] {
      check_micro(*step, micro);
      check_unit(*step, entering);
      auto made = std::make_unique<weft_state>();
      for (const nn::FieldShape& field :
           step->owner->model().boundary(step->micro[micro].batch, entering->index)) {
        at::Tensor tensor = at::empty(field.shape, field.dtype);
        if (field.differentiable && step->training) tensor.set_requires_grad(true);
        made->state.set(field.name, tensor);
      }
      *own = made.release();
    });
  }
};

const weft_step_services* step_services() {
  static const weft_step_services table = [] {
    weft_step_services t{};
    t.struct_size = sizeof(t);
    t.micro_count = [](weft_step* step) { return static_cast<uint32_t>(step->micro.size()); };
    t.training = [](weft_step* step) -> uint32_t { return step->training; };
    t.input = [](weft_step* step, uint32_t micro, weft_state** own, weft_error* error) {
      return guarded(error, [&] {
        StepServices::check_micro(*step, micro);
        *own = new weft_state{step->owner->input(step->micro[micro].batch)};
      });
    };
    t.boundary = &StepServices::boundary;
    t.forward = &StepServices::forward;
    t.finish = [](weft_step* step, uint32_t micro, weft_state* last, weft_error* error) {
      return guarded(error, [&] {
        StepServices::check_micro(*step, micro);
        StepServices::finish(*step, micro, last->state);
      });
    };
    t.backward = [](weft_step* step, uint32_t micro, weft_state* outputs, weft_state* gradients,
                    weft_error* error) {
      return guarded(error, [&] {
        StepServices::check_micro(*step, micro);
        StepServices::backward(*step, micro, outputs, gradients);
      });
    };
    t.state_create = [] { return new weft_state; };
    t.state_destroy = [](weft_state* state) { delete state; };
    t.state_size = [](weft_state* state) { return static_cast<uint32_t>(state->state.size()); };
    t.state_name = [](weft_state* state, uint32_t index) {
      return index < state->state.size() ? borrow((state->state.begin() + index)->first)
                                         : weft_str{nullptr, 0};
    };
    t.state_tensor = [](weft_state* state, uint32_t index) -> const weft_at_tensor* {
      if (index >= state->state.size()) return nullptr;
      return reinterpret_cast<const weft_at_tensor*>(&(state->state.begin() + index)->second);
    };
    t.state_set = [](weft_state* state, weft_str name, const weft_at_tensor* tensor, weft_error* error) {
      return guarded(error,
                     [&] { state->state.set(view(name), *reinterpret_cast<const at::Tensor*>(tensor)); });
    };
    return t;
  }();
  return &table;
}

}  // namespace weft
