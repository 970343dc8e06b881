// The services with which a strategy's schedule runs micro-batches.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"
#include "parallel/apply.hpp"
#include "training/auxiliary.hpp"
#include "training/precision.hpp"
#include "training/services.hpp"
#include "training/step.hpp"

namespace weft {

namespace {

// Returns the shape of a field on this rank. Throws UNIMPLEMENTED for a field of a split sequence that a
// schedule cannot pass on, because it is not the residual stream.
std::vector<int64_t> local_shape(const Bindings& bindings, const nn::FieldShape& field) {
  using Division = nn::FieldShape::Division;
  std::vector<int64_t> shape = field.shape;
  if (bindings.plan() == nullptr || field.division == Division::kNone) return shape;
  const int64_t positions = field.division == Division::kPositionBias ? shape.back() : shape[1];
  int64_t own = 0;
  for (const Run& run : bindings.plan()->own_positions(field.sequence, positions)) own += run.count;
  if (own == positions) return shape;
  if (field.division != Division::kPositions)
    fail(
        WEFT_UNIMPLEMENTED,
        "{}: the plan of {} splits sequences over ranks, and a schedule cannot pass the field \"{}\" between "
        "stages then; leave sequence parallelism out",
        bindings.strategy_name(), bindings.model().architecture(), field.name);
  shape[1] = own;
  return shape;
}

// Returns zero as a function of everything that `state` holds, so that backward reaches all of it.
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
    const nn::Model& model = step.bindings().model();
    const Batch& batch = step.micro[micro].batch;
    const nn::RunningUnit running(*step.micro[micro].context, step.bindings().units().size());
    if (std::exchange(step.micro[micro].finished, true))
      throw Error(WEFT_FAILED_PRECONDITION, "micro-batch " + std::to_string(micro) + " is finished already");
    if (!step.training) {
      Training::Forward& forward = step.forwards[micro];
      forward.outputs = outputs_of(step.bindings(), last);
      forward.counts = model.counts(batch);
      if (forward.counts.empty()) return;
      forward.terms = model.loss(last, batch);
      return;
    }
    std::vector<at::Tensor> sums;
    if (step.criterion && batch.empty) {
      sums = {zero_of(last)};  // a mean over no label would be NaN, and so would zero times it
    } else if (step.criterion) {
      sums = {step.criterion(outputs_of(step.bindings(), last), batch)};
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
    const double scale = step.bindings().loss_scale();
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
        const at::Tensor& gradient = gradients->state.at(name);
        if (!gradient.defined()) continue;  // no later unit used the field
        roots.push_back(tensor);
        grads.push_back(gradient);
      }
    }
    // The last in the strategy's order, which need not be that of the micro-batches.
    const Piece piece = std::move(micro.pieces.back());
    micro.pieces.pop_back();
    micro.backward_begun = true;
    if (piece.auxiliary.defined()) {
      roots.push_back(piece.auxiliary);
      grads.emplace_back();
    }
    const bool last = std::all_of(step.micro.begin(), step.micro.end(),
                                  [](const MicroBatch& m) { return m.backward_begun && m.pieces.empty(); });
    const weft_backward_info info{sizeof(info), index, static_cast<uint32_t>(step.micro.size()),
                                  last && step.synchronise_last, 0};
    step.owner->hooks_.backward(roots, grads, info, piece.record);
  }

  static void check_micro(const weft_step& step, uint32_t micro) {
    if (micro >= step.micro.size())
      throw Error(WEFT_OUT_OF_RANGE,
                  "micro-batch " + std::to_string(micro) + " of " + std::to_string(step.micro.size()));
  }

  static void check_unit(const weft_step& step, const weft_unit* unit) {
    if (unit == nullptr || unit->bindings != &step.bindings())
      throw Error(WEFT_INVALID_ARGUMENT, "the unit is not one of this training");
  }

  static weft_status forward(weft_step* step, uint32_t micro, weft_unit* unit, weft_state* inout,
                             weft_error* error) {
    return guarded(error, [&] {
      check_micro(*step, micro);
      check_unit(*step, unit);
      MicroBatch& of = step->micro[micro];
      std::shared_ptr<ForwardRecord> record;
      if (step->training) {
        std::vector<Piece>& pieces = of.pieces;
        if (pieces.empty() || pieces.back().state != inout || pieces.back().next_unit != unit->index)
          pieces.push_back({inout, 0, step->owner->hooks_.make_record(), {}});
        pieces.back().next_unit = unit->index + 1;
        record = pieces.back().record;
      }
      ++of.forwards;
      std::vector<nn::AuxiliaryLoss> losses =
          step->owner->forward_unit(*unit, inout->state, of.context, record);
      if (losses.empty()) return;
      if (!step->training) {
        std::move(losses.begin(), losses.end(), std::back_inserter(of.auxiliary));
        return;
      }
      at::Tensor& sum = of.pieces.back().auxiliary;
      const at::Tensor added = add_auxiliary(*step, micro, losses);
      sum = sum.defined() && added.defined() ? sum + added : added.defined() ? added : sum;
    });
  }

  static weft_status boundary(weft_step* step, uint32_t micro, weft_unit* entering, weft_state** own,
                              weft_error* error) {
    return guarded(error, [&] {
      check_micro(*step, micro);
      check_unit(*step, entering);
      auto made = std::make_unique<weft_state>();
      for (const nn::FieldShape& field :
           step->bindings().model().boundary(step->micro[micro].batch, entering->index)) {
        at::Tensor tensor = at::empty(local_shape(step->bindings(), field), field.dtype);
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
        *own = new weft_state{input_of(step->bindings(), step->micro[micro].batch)};
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
