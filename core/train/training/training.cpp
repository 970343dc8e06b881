#include "training/training.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "apply/make_context.hpp"
#include "autograd/recompute.hpp"
#include "autograd/saved_tensor_hooks.hpp"
#include "base/text.hpp"
#include "device/autocast.hpp"
#include "device/tensors.hpp"
#include "trace/phases.hpp"
#include "trace/trace.hpp"
#include "training/auxiliary.hpp"
#include "training/input_output.hpp"
#include "training/pipeline.hpp"
#include "training/stage_chain.hpp"
#include "training/step.hpp"
#include "training/step_graphs.hpp"
#include "weft/nn/key_value_cache.hpp"

namespace weft {

double Training::StepLoss::total() const {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

double Training::StepLoss::auxiliary() const {
  return std::accumulate(parts.begin() + static_cast<std::ptrdiff_t>(model_terms), parts.end(), 0.0);
}

Training::Training(World world, std::shared_ptr<nn::Model> model, const weft_strategy_api* api,
                   std::string strategy_name, const std::vector<weft_kv>& strategy_options,
                   TrainingOptions options, std::shared_ptr<ParameterSource> source,
                   const Bindings::MakePlan& make_plan)
    : bindings_(std::move(world), std::move(model), api, std::move(strategy_name), strategy_options,
                std::move(options), std::move(source)),
      hooks_(bindings_) {
  static const bool installed = (SavedTensorHooks::install(), true);
  (void)installed;
  if (bindings_.options().booster.enable_cuda_graph) graphs_ = std::make_unique<StepGraphs>(bindings_);
  bindings_.start(make_plan);
  if (bindings_.stages().virtual_stages() > 1) pipeline_ = std::make_unique<Pipeline>(bindings_);
}

Training::~Training() = default;

std::vector<nn::AuxiliaryLoss> Training::forward_unit(weft_unit& unit, State& state, const weft_pass& pass,
                                                      const std::shared_ptr<nn::ForwardContext>& context,
                                                      const std::shared_ptr<ForwardRecord>& record) {
  const auto run = [&unit, context, deferred = record != nullptr ? record->deferred() : nullptr,
                    dtype = bindings_.options().host.autocast](State& s, bool again) {
    using Run = nn::RunningUnit::Run;
    const nn::RunningUnit running(*context, unit.index, again ? Run::kAgain : Run::kFirst, deferred);
    std::optional<trace::Span> span;
    if (again) span.emplace([&] { return trace::begin("recompute " + unit.unit->name(), "unit"); });
    const device::Autocast autocast(dtype);
    unit.unit->forward(s);
  };
  const bool recompute = unit.recompute && record != nullptr && at::GradMode::is_enabled();
  std::vector<nn::AuxiliaryLoss> losses;
  hooks_.forward(unit, state, pass, record, [&](State& s) {
    if (check_) check_->see(unit);
    recompute ? run_recomputed(unit.unit->name(), run, s) : run(s, false);
    if (watch_) watch_(unit, s);
    losses = context->take_losses();
    std::vector<at::Tensor*> sums;
    for (nn::AuxiliaryLoss& loss : losses) sums.push_back(&loss.sum);
    return sums;
  });
  return losses;
}

void Training::drive(weft_step& step) {
  const trace::InPhase forward(trace::Phase::kForward);  // up to backward, which weft_step marks
  if (bindings_.strategy().api().run_step != nullptr) {
    bindings_.strategy().call<&weft_strategy_api::run_step>(&step);
    check_driven(step);
    return;
  }
  const auto run = [&] {
    if (pipeline_ != nullptr) return pipeline_->run(step);
    const auto forward_and_backward = [&](uint32_t micro) {
      {
        const trace::Span span([&] { return trace::begin(fmt::format("F{}", micro), "operation", micro); });
        weft_state state{step.input(micro)};
        for (const auto& unit : bindings_.units()) step.forward(micro, *unit, state);
        step.finish(micro, state.state);
      }
      if (!step.training) return;
      const trace::Span span([&] { return trace::begin(fmt::format("B{}", micro), "operation", micro); });
      step.backward(micro);
    };
    for (uint32_t micro = 0; micro < step.micro.size(); ++micro)
      if (graphs_ != nullptr && step.training && !check_)
        graphs_->run(step, micro, [&] { forward_and_backward(micro); });
      else
        forward_and_backward(micro);
  };
  ErrorSink error;  // gives every exception of a unit a status
  error.check(weft::guarded(error, run));
}

// Checks that the schedule ran every unit, and backward, of every micro-batch. Otherwise there would be a
// hang or a wrong gradient later. Collective over the stages.
void Training::check_driven(const weft_step& step) {
  // Two numbers for each micro-batch, over all stages: forwards of units, and calls of finish.
  std::vector<int64_t> done;
  for (const MicroBatch& micro : step.micro) {
    done.push_back(micro.forwards);
    done.push_back(micro.finished);
  }
  if (bindings_.mesh().splits(Mesh::stages())) {
    const at::Tensor sums = at::tensor(done, at::kLong);
    bindings_.comm(Mesh::stages())->communicator.all_reduce(sums, ReduceOp::kSum, true).wait();
    done = device::values_of<int64_t>(sums);
  }
  for (size_t i = 0; i < step.micro.size(); ++i) {
    const MicroBatch& micro = step.micro[i];
    const int64_t forwards = done[2 * i], finished = done[2 * i + 1];
    std::string missing;
    if (forwards != static_cast<int64_t>(bindings_.units().size()))
      missing = fmt::format("with {} forwards of the {} units", forwards, bindings_.units().size());
    else if (finished != 1)
      missing = finished == 0 ? "without finish" : fmt::format("with finish on {} stages", finished);
    else if (step.training && (!micro.pieces.empty() || (micro.forwards > 0 && !micro.backward_begun)))
      missing = "without backward";
    if (!missing.empty())
      fail(WEFT_INTERNAL, "{}: run_step returned {} of micro-batch {} of {}", bindings_.strategy_name(),
           missing, i, step.micro.size());
  }
}

namespace {

std::string names_of(const State& state) {
  std::string names;
  for (const auto& [name, tensor] : state) names += (names.empty() ? "" : ", ") + name;
  return names;
}

// Adds the counts of one micro-batch. The first one gives the terms their names.
void add_counts(weft_step& step, uint32_t index, std::vector<double>& counts) {
  const nn::Model& model = step.bindings().model();
  const std::vector<nn::LossCount>& terms = step.counts(index);
  if (const ChosenLoss& chosen = step.bindings().options().loss; chosen && terms.empty())
    fail(WEFT_INVALID_ARGUMENT, "objective {}: the batch has no labels for it; the fields are {}",
         chosen.name(), names_of(step.micro[index].batch));
  if (terms.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the batch has no labels to train on; give the model's labels or a criterion",
         model.architecture());
  if (step.names.empty()) counts.resize(terms.size());
  if (terms.size() != counts.size())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the micro-batches have labels for {} and for {} terms of the loss; give all of them the same "
         "labels",
         model.architecture(), counts.size(), terms.size());
  for (size_t t = 0; t < terms.size(); ++t) {
    if (!step.micro[index].batch.empty) counts[t] += terms[t].count;
    if (step.names.size() <= t) step.names.push_back(terms[t].name);
  }
}

// Sets the share of each micro-batch. Of micro-batches of one size it is 1 / (ranks x micro-batches).
void set_shares(weft_step& step) {
  const auto samples_of = [](const MicroBatch& micro) {
    return micro.batch.empty ? 0.0 : static_cast<double>(micro.batch.samples());
  };
  double total = 0;
  for (const MicroBatch& micro : step.micro) total += samples_of(micro);
  total *= static_cast<double>(step.bindings().mesh().place(Mesh::samples()).size);
  for (MicroBatch& micro : step.micro)
    if (!micro.batch.empty) micro.share = samples_of(micro) / total;
}

// Sets the scale of each term, so that it is the mean over its labels in the global batch. Collective.
void scale_terms(weft_step& step) {
  Bindings& bindings = step.bindings();
  std::vector<double> counts;
  for (uint32_t i = 0; i < step.micro.size(); ++i) add_counts(step, i, counts);
  append_positions(step, counts);
  if (bindings.mesh().splits(Mesh::samples())) {
    const at::Tensor sums = at::tensor(counts, at::kDouble);
    bindings.comm(Mesh::samples())->communicator.all_reduce(sums, ReduceOp::kSum, true).wait();
    counts = device::values_of<double>(sums);
  }
  take_positions(step, counts);
  for (size_t t = 0; t < counts.size(); ++t) {
    if (!(counts[t] > 0)) refuse_term(bindings.model(), step.names[t], counts);
    step.scales.push_back(1 / counts[t]);
  }
}

// Tells the contexts that nobody reads the outputs, and which gradients backward will pass to the terms. A
// graph has others in each replay, and the eager step before it computes what the graph will.
void want_loss_alone(weft_step& step, bool in_graphs) {
  for (MicroBatch& micro : step.micro) {
    micro.context->want_loss_alone(micro.batch);
    for (size_t t = 0; t < step.scales.size() && !micro.batch.empty && !in_graphs; ++t)
      micro.context->know_gradient_of_loss(step.names[t], step.scales[t] * step.bindings().backward_scale());
  }
}

}  // namespace

std::shared_ptr<nn::ForwardContext> Training::context_of(const Batch& batch, nn::KeyValueCache* cache) const {
  return parallel::make_context(bindings_.model(), fields_of_model(bindings_, batch), bindings_.plan(),
                                cache);
}

// All stages refuse a batch together, and before contexts draw their seeds: then the ranks can go on with
// another batch.
void Training::add_micro_batches(weft_step& step, const std::vector<Batch>& batches) {
  for (const Batch& batch : batches) step.micro.emplace_back().batch = batch;
  if (pipeline_ != nullptr) {
    ErrorSink error;  // gives every exception of the model a status
    error.check(weft::guarded(error, [&] { pipeline_->check_batches(step); }));
  }
  for (MicroBatch& micro : step.micro) micro.context = context_of(micro.batch);
}

Training::StepLoss Training::run_step(const std::vector<Batch>& micro_batches, const Criterion& criterion,
                                      State* outputs, const MicroBatchHooks& hooks) {
  return bindings_.strategy().guarded([&] {
    weft_step step;
    step.owner = this;
    step.synchronise_last = synchronise_;
    step.keeps_outputs = outputs != nullptr;
    step.criterion = criterion;
    step.hooks = hooks;
    add_micro_batches(step, micro_batches);
    for (MicroBatch& micro : step.micro)
      micro.context->smooth_labels(bindings_.options().booster.label_smoothing);
    if (criterion) {
      step.names = {"loss"};
      step.scales = {1};
      set_shares(step);
    } else {
      scale_terms(step);
      if (outputs == nullptr && !bindings_.options().loss) want_loss_alone(step, graphs_ != nullptr);
    }
    step.parts.resize(step.scales.size());
    // From here on other ranks wait for this one.
    if (bindings_.mesh().open_axes() != 0) bindings_.strategy().disturb();
    zeroings_of_last_backward_ = bindings_.zeroings();
    at::AutoGradMode with_gradients(true);
    if (graphs_ != nullptr)
      graphs_->on_stream([&] { drive(step); });
    else
      drive(step);
    if (outputs != nullptr) *outputs = joined_results(step.micro).outputs;
    return StepLoss{step.names, std::move(step.parts), step.scales.size(), std::move(step.reading)};
  });
}

void Training::begin_check() {
  constexpr int64_t kFirst = 2;  // the second one shows whether the first update came through
  check_.reset();
  bindings_.set_checks_update(false);
  bindings_.strategy().guarded([&] {
    const int64_t step = ++steps_begun_, every = bindings_.options().booster.check_agreement;
    const bool asked = std::exchange(check_asked_, false);
    const bool due = every >= 0 && (asked || step <= kFirst || (every > 0 && step % every == 0));
    const bool pending = zeroings_of_last_backward_ == bindings_.zeroings();
    if (!due || pending) return;
    bindings_.strategy().disturb();  // collectives begin here
    if (step > 1) verify([&] { bindings_.check_replicas(Bindings::Origin::kTrained); });
    check_.emplace(bindings_);
    bindings_.set_checks_update(true);
  });
}

void Training::finish_check() {
  if (!check_) return;
  const auto reset = c10::make_scope_exit([&] { check_.reset(); });
  bindings_.strategy().guarded([&] {
    bindings_.strategy().disturb();  // the gradients that are wrong stay pending
    verify([&] { check_->finish(); });
  });
}

void Training::require_whole_model(const char* what) const {
  if (pipeline_ == nullptr) return;
  fail(WEFT_FAILED_PRECONDITION,
       "{}: {} needs the whole model on each rank, but pp_size is {}; call Booster::execute_pipeline, which "
       "runs forward and backward through the stages, or Job::train_step, which also updates",
       bindings_.strategy_name(), what, bindings_.options().host.pipeline.size);
}

State Training::forward(const Batch& batch) {
  require_whole_model("a forward of your own");
  return bindings_.strategy().guarded([&] {
    std::shared_ptr<ForwardRecord> record;
    const bool trains = at::GradMode::is_enabled();
    if (trains) record = hooks_.make_pending_record();
    const weft_pass pass = bindings_.pass(trains ? WEFT_PASS_TRAINING : WEFT_PASS_EVALUATION, 0, 0, false);
    State state = input_of(bindings_, batch);
    const auto context = context_of(batch);
    std::vector<nn::AuxiliaryLoss> losses;
    for (const auto& unit : bindings_.units())
      for (nn::AuxiliaryLoss& loss : forward_unit(*unit, state, pass, context, record))
        losses.push_back(std::move(loss));
    const nn::RunningUnit running(*context, bindings_.units().size());
    State outputs = outputs_of(bindings_, state);
    if (!losses.empty())
      outputs.set("aux_loss", parallel::weighted_mean(losses, *context, bindings_.mesh().sequence_size()));
    return outputs;
  });
}

at::Tensor Training::forward_cached(const Batch& batch, int64_t positions, nn::KeyValueCache& cache) {
  return bindings_.strategy().guarded([&] {
    const at::NoGradGuard no_grad;
    const bool continues = cache.past() > 0;
    const weft_pass pass = bindings_.pass(WEFT_PASS_GENERATION, 0, 1, false);
    const auto context = context_of(batch, &cache);
    const auto run = [&](uint32_t begin, uint32_t end, State& state) {
      for (uint32_t unit = begin; unit < end; ++unit)
        forward_unit(*bindings_.units()[unit], state, pass, context, nullptr);
    };
    const auto result_of = [&](const State& last) {
      const nn::RunningUnit running(*context, bindings_.units().size());
      const State outputs = outputs_of(bindings_, last);
      const at::Tensor* const logits = outputs.find("logits");
      return logits == nullptr ? State() : State{{"logits", *logits}};
    };
    const StageChain::Units units = {[&] { return input_of(bindings_, batch, continues); }, run, result_of};
    cache.begin(positions);
    State result;
    if (pipeline_ == nullptr) {
      State state = units.input();
      units.run(0, static_cast<uint32_t>(bindings_.units().size()), state);
      result = units.result(state);
    } else {
      if (stage_chain_ == nullptr) stage_chain_ = std::make_unique<StageChain>(bindings_);
      ErrorSink error;  // gives every exception of a unit a status
      error.check(weft::guarded(error, [&] { result = stage_chain_->forward(continues, units); }));
    }
    cache.end();
    return result.empty() ? at::Tensor() : result.at("logits");
  });
}

void Training::backward(const at::Tensor& loss) {
  require_whole_model("backward of a loss of your own");
  check_root("your loss function", loss);
  zeroings_of_last_backward_ = bindings_.zeroings();
  bindings_.strategy().guarded([&] {
    const weft_pass pass = bindings_.pass(WEFT_PASS_TRAINING, 0, 0, synchronise_);
    // Average over data-parallel ranks: the loss is a mean over this rank's samples, and strategies sum.
    const double factor =
        bindings_.backward_scale() / static_cast<double>(bindings_.mesh().place(Mesh::samples()).size);
    const at::Tensor scaled = factor == 1 ? loss : loss * factor;
    hooks_.backward({scaled}, {at::Tensor()}, pass, nullptr);
    return 0;
  });
}

}  // namespace weft
