#include "training/step.hpp"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "trace/phases.hpp"
#include "trace/trace.hpp"
#include "training/auxiliary.hpp"
#include "training/input_output.hpp"

namespace weft {

void check_loss(const std::string& who, const at::Tensor& loss) {
  if (!loss.defined() || !loss.is_floating_point())
    fail(WEFT_INVALID_ARGUMENT, "{} returned {}, must return a loss in floating point", who,
         loss.defined() ? fmt::format("values of type {}", toString(loss.scalar_type())) : "no tensor");
  if (loss.numel() != 1)
    fail(WEFT_INVALID_ARGUMENT,
         "{} returned a tensor [{}], must return one element; reduce it, for example with mean()", who,
         fmt::join(loss.sizes(), ", "));
}

void refuse_term(const nn::Model& model, const std::string& name, const std::vector<double>& counts) {
  const std::string text =
      fmt::format("{}: no label of \"{}\" counts in the global batch: the mean over none is undefined",
                  model.architecture(), name);
  if (std::none_of(counts.begin(), counts.end(), [](double count) { return count > 0; }))
    throw Training::NoLabelError(WEFT_INVALID_ARGUMENT, text);
  throw Error(WEFT_INVALID_ARGUMENT, text);
}

void check_root(const std::string& who, const at::Tensor& loss) {
  check_loss(who, loss);
  if (!loss.requires_grad())
    fail(WEFT_INVALID_ARGUMENT,
         "{} returned a loss without a gradient; compute it from the outputs, which must not be detached",
         who);
}

}  // namespace weft

namespace {

std::vector<weft::nn::LossTerm> checked(std::vector<weft::nn::LossTerm> terms) {
  for (const weft::nn::LossTerm& term : terms)
    weft::check_loss("term \"" + term.name + "\" of Model::loss", term.sum);
  return terms;
}

// Returns zero as a function of everything that `state` holds, so that backward reaches all of it.
at::Tensor zero_of(const weft::State& state) {
  at::Tensor zero;
  for (const auto& [name, tensor] : state) {
    if (!tensor.defined() || !tensor.requires_grad()) continue;
    const at::Tensor none = tensor.flatten().narrow(0, 0, 0).sum();
    zero = zero.defined() ? zero + none : none;
  }
  return zero.defined() ? zero : at::zeros({}, weft::device::current().options(at::kFloat));
}

}  // namespace

weft::State weft_step::input(uint32_t index) const {
  const weft::MicroBatch& of = micro[index];
  return of.input ? *of.input : weft::input_of(bindings(), of.batch);
}

const std::vector<weft::nn::LossCount>& weft_step::counts(uint32_t index) {
  weft::MicroBatch& of = micro[index];
  const weft::ChosenLoss& chosen = bindings().options().loss;
  if (!of.counts) of.counts = chosen ? chosen.counts(of.batch) : bindings().model().counts(of.batch);
  return *of.counts;
}

void weft_step::forward(uint32_t index, weft_unit& unit, weft_state& state) {
  const weft::trace::Span span(
      [&] { return weft::trace::begin("forward " + unit.unit->name(), "unit", index); });
  weft::MicroBatch& of = micro[index];
  if (of.forwards == 0) begin_micro_batch(index);
  if (training) {
    std::vector<weft::Piece>& pieces = of.pieces;
    if (pieces.empty() || pieces.back().record != state.record || pieces.back().next_unit != unit.index) {
      state.record = owner->hooks_.make_record(splits_backward);
      pieces.push_back({0, state.record, {}});
    }
    pieces.back().next_unit = unit.index + 1;
  }
  ++of.forwards;
  std::vector<weft::nn::AuxiliaryLoss> losses = owner->forward_unit(
      unit, state.state, forward_pass(index), of.context, training ? state.record : nullptr);
  if (losses.empty()) return;
  if (!training) {
    std::move(losses.begin(), losses.end(), std::back_inserter(of.auxiliary));
    return;
  }
  at::Tensor& sum = of.pieces.back().auxiliary;
  const at::Tensor added = weft::add_auxiliary(*this, index, losses);
  sum = sum.defined() && added.defined() ? sum + added : added.defined() ? added : sum;
}

void weft_step::finish(uint32_t index, const weft::State& last) {
  weft::MicroBatch& of = micro[index];
  const weft::nn::RunningUnit running(*of.context, bindings().units().size());
  if (std::exchange(of.finished, true))
    weft::fail(WEFT_FAILED_PRECONDITION, "micro-batch {} is finished already", index);
  const weft::ChosenLoss& chosen = bindings().options().loss;
  const bool computes_from_outputs = (criterion || chosen) && !of.batch.empty;
  const bool reads_outputs = !training || keeps_outputs || computes_from_outputs;
  const weft::State outputs = reads_outputs ? weft::outputs_of(bindings(), last) : weft::State();
  if (!training || keeps_outputs)
    for (const auto& [name, tensor] : outputs) of.result.outputs.set(name, tensor.detach());
  if (training) {
    of.loss = scaled_loss(index, last, outputs);
    if (of.context->ignores_smoothing())
      weft::fail(WEFT_INVALID_ARGUMENT,
                 "label_smoothing is {}, but the loss of {} has no cross entropy of labels, which alone is "
                 "smoothed; leave it out",
                 bindings().options().booster.label_smoothing, bindings().model().architecture());
    const bool is_last =
        std::all_of(micro.begin(), micro.end(), [](const weft::MicroBatch& m) { return m.finished; });
    if (is_last && capture == nullptr) reading.begin();
    return;
  }
  of.result.counts = counts(index);
  if (of.result.counts.empty()) return;
  const weft::Batch batch = weft::on_device(of.batch);
  of.result.terms =
      chosen ? chosen.terms(outputs, batch, of.result.counts) : checked(bindings().model().loss(last, batch));
}

// Adds this micro-batch's part of each term, and returns the loss that backward begins at.
at::Tensor weft_step::scaled_loss(uint32_t index, const weft::State& last, const weft::State& outputs) {
  const weft::MicroBatch& of = micro[index];
  const weft::nn::Model& model = bindings().model();
  const weft::ChosenLoss& chosen = bindings().options().loss;
  const weft::Batch batch = weft::on_device(of.batch);
  std::vector<at::Tensor> sums;
  if ((criterion || chosen) && of.batch.empty) {
    // A mean over no label would be NaN, and so would zero times it.
    sums.assign(scales.size(), zero_of(last));
  } else if (criterion) {
    sums = {criterion(outputs, batch)};
    weft::check_root("the criterion", sums[0]);
  } else {
    for (const weft::nn::LossTerm& term :
         chosen ? chosen.terms(outputs, batch, counts(index)) : checked(model.loss(last, batch)))
      sums.push_back(term.weight == 1 ? term.sum : term.sum * term.weight);
  }
  if (sums.size() != scales.size())
    weft::fail(WEFT_INTERNAL, "{}: {} loss terms, but {} counts", model.architecture(), sums.size(),
               scales.size());
  at::Tensor total;
  for (size_t t = 0; t < sums.size(); ++t) {
    const at::Tensor scaled =
        capture != nullptr ? sums[t] * capture->scales[static_cast<int64_t>(t)].to(sums[t].scalar_type())
                           : sums[t] * (of.batch.empty ? 0.0
                                        : criterion    ? of.share
                                                       : scales[t]);
    add_part(t, scaled);
    total = total.defined() ? total + scaled : scaled;
  }
  return with_loss_scale(total);
}

at::Tensor weft_step::with_loss_scale(const at::Tensor& loss) const {
  if (capture != nullptr) return loss * capture->scales[-1].to(loss.scalar_type());
  const double scale = bindings().backward_scale();
  return scale == 1 ? loss : loss * scale;
}

void weft_step::add_part(size_t term, const at::Tensor& value) {
  const bool counts = term < scales.size() ? bindings().mesh().speaks_for(weft::Fact::kLoss)
                                           : weft::reports_auxiliary(bindings());
  if (!counts) return;
  const at::Tensor part = value.detach().to(at::kDouble);
  if (capture != nullptr)
    capture->parts.emplace_back(term, part);
  else
    reading.add(part, &parts[term]);
}

std::shared_ptr<weft::ForwardRecord> weft_step::backward(uint32_t index, const weft::State* outputs,
                                                         const weft::State* gradients,
                                                         const std::function<void()>& send) {
  const weft::trace::InPhase phase(weft::trace::Phase::kBackward);
  weft::MicroBatch& of = micro[index];
  const auto refuse = [&](const char* why) {
    weft::fail(WEFT_FAILED_PRECONDITION, "backward of micro-batch {}{}", index, why);
  };
  if (!training) refuse(": this step only goes forward");
  if (of.pieces.empty()) refuse(": nothing went forward that has not been backward");
  std::vector<at::Tensor> roots, grads;
  if (outputs == nullptr) {
    if (!of.loss.defined()) refuse(" from the loss needs finish before it");
    roots = {std::exchange(of.loss, at::Tensor())};
    grads = {at::Tensor()};
  } else {
    for (const auto& [name, tensor] : *outputs) {
      if (!tensor.defined() || !tensor.requires_grad()) continue;
      const at::Tensor& gradient = gradients->at(name);
      if (!gradient.defined()) continue;  // no later unit used the field
      roots.push_back(tensor);
      grads.push_back(gradient);
    }
  }
  const weft::Piece piece = std::move(of.pieces.back());
  of.pieces.pop_back();
  of.backward_begun = true;
  of.halves += splits_backward ? 1 : 0;
  if (piece.auxiliary.defined()) {
    roots.push_back(piece.auxiliary);
    grads.emplace_back();
  }
  owner->hooks_.backward(roots, grads, backward_pass(index), piece.record, send);
  end_micro_batch(index);
  return splits_backward ? piece.record : nullptr;
}

void weft_step::finish_backward(uint32_t index, const weft::ForwardRecord& record) {
  const weft::trace::InPhase phase(weft::trace::Phase::kBackward);
  --micro[index].halves;
  owner->hooks_.finish_backward(backward_pass(index), record);
  end_micro_batch(index);
}

void weft_step::before_graph(uint32_t index) {
  begin_micro_batch(index);
  owner->hooks_.before_graph(bindings().units(), forward_pass(index));
}

void weft_step::run_graph(uint32_t index, const std::function<void()>& launch,
                          const weft::Strategy::KeptHooks& after) {
  micro[index].finished = micro[index].backward_begun = true;
  owner->hooks_.run_graph(backward_pass(index), launch, after);
  end_micro_batch(index);
}

void weft_step::begin_micro_batch(uint32_t index) {
  if (training && hooks.before && capture == nullptr) hooks.before(index);
}

void weft_step::end_micro_batch(uint32_t index) {
  const weft::MicroBatch& of = micro[index];
  if (hooks.after && capture == nullptr && of.pieces.empty() && of.halves == 0) hooks.after(index);
}

weft_pass weft_step::forward_pass(uint32_t index) const {
  return bindings().pass(training ? WEFT_PASS_TRAINING : WEFT_PASS_EVALUATION, index, micro.size(), false);
}

// Describes the backward that is about to run. The last one is so in the schedule's order, which need not be
// that of the micro-batches.
weft_pass weft_step::backward_pass(uint32_t index) const {
  const bool last = std::all_of(micro.begin(), micro.end(), [](const weft::MicroBatch& m) {
    return m.backward_begun && m.pieces.empty() && m.halves == 0;
  });
  return bindings().pass(WEFT_PASS_TRAINING, index, micro.size(), last && synchronise_last);
}
