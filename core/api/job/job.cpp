// Job: a training step, evaluation and forward, the same for every strategy.
#include <ATen/ops/tensor.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.hpp"
#include "booster/option_checks.hpp"
#include "booster/running.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "host/launch/activity.hpp"
#include "opening/model_state.hpp"
#include "optim/optimizer_state.hpp"
#include "trace/phases.hpp"
#include "trace/trace.hpp"
#include "training/input_output.hpp"
#include "training/training.hpp"
#include "weft/booster.hpp"

namespace weft {

namespace {

// Returns the number of positions in the model's first sequence, or of samples for a model without sequences.
// Returns 0 where another rank counts them.
double num_tokens(const Bindings& bindings, const Batch& batch) {
  if (batch.empty || !bindings.mesh().speaks_for(Fact::kSamples)) return 0;
  const std::vector<nn::SequenceLength> lengths = bindings.model().lengths(fields_of_model(bindings, batch));
  return static_cast<double>(lengths.empty() ? batch.samples() : lengths[0].rows * lengths[0].positions);
}

// Returns the result of a step whose global batch has no label that counts: nothing is computed or updated.
// Says so the first time.
StepResult step_without_labels(Job& job, Training& training, const Error& error) {
  training.postpone_check();
  if (training.is_first_without_labels())
    training.bindings().world().print_on_master(
        fmt::format("{}; such a batch updates nothing. This is said once", error.what()));
  StepResult result;
  result.index = job.optimizer.steps();
  result.updated = false;
  if (job.optimizer.shared().scaler) result.loss_scale = training.bindings().loss_scale();
  if (!job.optimizer.groups().empty()) result.lr = job.optimizer.groups().front().options.at("lr");
  return result;
}

}  // namespace

StepResult Job::train_step(const Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  const std::string name = fmt::format("step {}", optimizer ? optimizer.steps() + 1 : 1);
  const Activity activity(name);
  const trace::Span span([&] { return trace::begin(name, "step"); });
  Training& training = training_of(model);
  Bindings& bindings = training.bindings();
  if (!optimizer) fail(WEFT_FAILED_PRECONDITION, "train_step needs an optimizer: pass one to Booster::boost");
  if (!bindings.model().is_training()) model.train();
  check_max_grad_norm(max_grad_norm, "train_step: max_grad_norm");
  batch.samples();
  training.begin_check();
  const bool checked = training.is_checking();
  std::optional<Training::StepLoss> ran;
  try {
    ran.emplace(training.run_step(micro_batches_of(batch, accumulate, bindings), criterion));
  } catch (const Training::NoLabelError& error) {
    return step_without_labels(*this, training, error);
  }
  Training::StepLoss& loss = *ran;
  training.finish_check();
  const trace::InPhase optimizing(trace::Phase::kOptimizer);
  StepResult result;
  if (optimizer.shared().scaler) result.loss_scale = bindings.loss_scale();
  if (!optimizer.groups().empty()) result.lr = optimizer.groups().front().options.at("lr");
  const auto auxiliary_terms = static_cast<double>(loss.names.size() - loss.model_terms);
  const optim::Optimizer::Shared::Update update = [&] {
    const trace::Span updating([] { return trace::begin("update", "optimizer"); });
    std::optional<ActivityDetail> detail;
    if (bindings.mesh().splits(Mesh::stages()))
      detail.emplace("after the schedule, waiting for all ranks to end theirs");
    return optimizer.shared().update(max_grad_norm, loss.reading, [&]() -> std::vector<double> {
      return {loss.total(), num_tokens(bindings, batch), stop_requested->load() ? 1.0 : 0.0, loss.auxiliary(),
              auxiliary_terms};
    });
  }();
  bindings.zero_gradients();
  result.index = optimizer.steps();
  result.checked = checked;
  result.updated = update.updated;
  result.loss = update.extra[0];
  if (schedule && update.updated)
    schedule.schedule().follows_metric() ? schedule.step(result.loss) : schedule.step();
  result.stop = update.extra[2] > 0;
  if (update.extra[4] > 0) result.auxiliary_loss = update.extra[3];
  if (max_grad_norm > 0) result.grad_norm = update.norm;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.tokens_per_second = update.extra[1] / result.seconds;
  return result;
}

void Job::check_next_step() {
  training_of(model).ask_for_check();
}

double Job::accumulate_gradients(const Batch& batch, bool synchronise) {
  Training& training = training_of(model);
  Bindings& bindings = training.bindings();
  if (!bindings.model().is_training()) model.train();
  batch.samples();
  const auto restore =
      c10::make_scope_exit([&, before = training.synchronise()] { training.set_synchronise(before); });
  training.set_synchronise(synchronise);
  return global_loss(bindings, training.run_step(micro_batches_of(batch, accumulate, bindings), criterion));
}

namespace {

template <class Includes>
double weighted_mean(const std::vector<Evaluation::Term>& terms, const Includes& includes) {
  double total = 0;
  bool counted = false;
  for (const Evaluation::Term& term : terms) {
    if (!(term.count > 0) || !includes(term)) continue;
    total += term.weight * term.sum / term.count;
    counted = true;
  }
  return counted ? total : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double Evaluation::loss() const {
  return weighted_mean(terms, [](const Term&) { return true; });
}

std::vector<std::pair<std::string, double>> Evaluation::outputs() const {
  std::vector<std::pair<std::string, double>> result;
  for (const Term& term : terms) {
    if (std::any_of(result.begin(), result.end(),
                    [&](const auto& made) { return made.first == term.output; }))
      continue;
    result.emplace_back(term.output,
                        weighted_mean(terms, [&](const Term& other) { return other.output == term.output; }));
  }
  return result;
}

double Evaluation::labels() const {
  double most = 0;
  for (const Term& term : terms) most = std::max(most, term.count);
  return most;
}

Evaluation& Evaluation::operator+=(const Evaluation& other) {
  if (terms.empty()) return *this = other;
  if (terms.size() != other.terms.size())
    fail(WEFT_INVALID_ARGUMENT, "evaluations of {} and of {} terms of the loss cannot be added", terms.size(),
         other.terms.size());
  for (size_t t = 0; t < terms.size(); ++t) {
    terms[t].sum += other.terms[t].sum;
    terms[t].count += other.terms[t].count;
  }
  for (const Metric& metric : other.metrics) {
    const auto found = std::find_if(metrics.begin(), metrics.end(),
                                    [&](const Metric& known) { return known.name == metric.name; });
    if (found == metrics.end()) {
      metrics.push_back(metric);
      continue;
    }
    found->sum += metric.sum;
    found->count += metric.count;
  }
  return *this;
}

namespace {

// Returns the terms of the loss and the metrics for this rank's samples.
Evaluation own_part(const nn::Model& model, const Training::Forward& forward, const Criterion& criterion,
                    const Batch& batch) {
  Evaluation result;
  if (criterion && forward.outputs.empty()) return result;  // because another stage has them
  if (criterion) {
    const double samples = batch.empty ? 0 : static_cast<double>(batch.samples());
    result.terms.push_back(
        {"loss", 1,
         batch.empty ? 0 : samples * device::value_of<double>(criterion(forward.outputs, on_device(batch))),
         samples});
    return result;
  }
  for (size_t t = 0; t < forward.terms.size(); ++t) {
    const nn::LossTerm& term = forward.terms[t];
    result.terms.push_back({term.name, term.weight, batch.empty ? 0 : device::value_of<double>(term.sum),
                            batch.empty ? 0 : forward.counts[t].count, term.output});
  }
  if (forward.outputs.empty()) return result;
  result.metrics = model.metrics(forward.outputs, on_device(batch));
  if (batch.empty)
    for (Metric& metric : result.metrics) metric.sum = metric.count = 0;
  return result;
}

// Convert between doubles and their bits, because JSON has no NaN and no infinity.
uint64_t bits_of(double value) {
  return std::bit_cast<uint64_t>(value);
}
double double_of(const nlohmann::json& bits) {
  return std::bit_cast<double>(bits.get<uint64_t>());
}

// Adds a term of another stage. Stages have different terms, or auxiliary losses of the same name.
void add_term(std::vector<Evaluation::Term>& terms, const Evaluation::Term& term) {
  const auto found =
      std::find_if(terms.begin(), terms.end(), [&](const auto& known) { return known.name == term.name; });
  if (found == terms.end())
    terms.push_back(term);
  else if (term.count > 0)
    found->sum += term.sum * (found->count / term.count);
}

// Gives every stage the terms of all stages, and the metrics, which one stage has. Collective over the
// stages.
void join_stages(Bindings& bindings, Evaluation& evaluation) {
  const auto describe = [&] {
    nlohmann::json terms = nlohmann::json::array(), metrics = nlohmann::json::array();
    for (const Evaluation::Term& term : evaluation.terms)
      terms.push_back({term.name, term.weight, bits_of(term.sum), bits_of(term.count), term.output});
    for (const Metric& metric : evaluation.metrics)
      metrics.push_back({metric.name, bits_of(metric.sum), bits_of(metric.count)});
    return nlohmann::json{{"terms", terms}, {"metrics", metrics}}.dump();
  };
  const std::vector<std::string> all =
      gather_from_every_rank(bindings.comm(Mesh::stages())->communicator, describe);
  evaluation = {};
  for (const std::string& text : all) {
    const nlohmann::json stage = nlohmann::json::parse(text);
    for (const nlohmann::json& term : stage.at("terms"))
      add_term(evaluation.terms,
               {term[0], term[1], double_of(term[2]), double_of(term[3]), term[4].get<std::string>()});
    for (const nlohmann::json& metric : stage.at("metrics"))
      evaluation.metrics.push_back({metric[0], double_of(metric[1]), double_of(metric[2])});
  }
}

void sum_over_ranks(Bindings& bindings, Evaluation& evaluation) {
  const Mesh& mesh = bindings.mesh();
  if (mesh.splits(Mesh::stages())) join_stages(bindings, evaluation);
  if (!mesh.splits(Mesh::samples()) || evaluation.terms.empty()) return;
  std::vector<double> sums;
  for (const Evaluation::Term& term : evaluation.terms) sums.insert(sums.end(), {term.sum, term.count});
  for (const Metric& metric : evaluation.metrics) sums.insert(sums.end(), {metric.sum, metric.count});
  const at::Tensor all = at::tensor(sums, at::kDouble);
  bindings.comm(Mesh::samples())->communicator.all_reduce(all, ReduceOp::kSum, true).wait();
  const std::vector<double> found = device::values_of<double>(all);
  const double* summed = found.data();
  const double times = mesh.sequence_size();  // how often each sample was counted
  for (Evaluation::Term& term : evaluation.terms) {
    term.sum = *summed++ / times;
    term.count = *summed++ / times;
  }
  for (Metric& metric : evaluation.metrics) {
    metric.sum = *summed++ / times;
    metric.count = *summed++ / times;
  }
}

}  // namespace

std::pair<State, Evaluation> Job::forward_and_evaluate(const Batch& batch) {
  Training& training = training_of(model);
  batch.samples();
  const EvaluationMode mode(training.bindings().model());
  const Training::Forward forward = training.run_forward(micro_batches_of(batch, 1, training.bindings()));
  Evaluation evaluation = own_part(training.bindings().model(), forward, criterion, batch);
  sum_over_ranks(training.bindings(), evaluation);
  return {forward.outputs, evaluation};
}

Evaluation Job::evaluate(const Batch& batch) {
  Evaluation evaluation = forward_and_evaluate(batch).second;
  if (evaluation.terms.empty())
    fail(WEFT_INVALID_ARGUMENT, "{}: the batch has no labels to evaluate on", model.architecture());
  return evaluation;
}

State Job::forward(const Batch& batch) {
  Training& training = training_of(model);
  batch.samples();
  const EvaluationMode mode(training.bindings().model());
  return training.run_forward(micro_batches_of(batch, 1, training.bindings())).outputs;
}

}  // namespace weft
