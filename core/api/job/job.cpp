// Job: evaluation and forward, the same for every strategy.
#include <ATen/ops/tensor.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.hpp"
#include "booster/running.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "opening/model_state.hpp"
#include "training/input_output.hpp"
#include "training/training.hpp"
#include "training/weight_average.hpp"
#include "weft/booster.hpp"

namespace weft {

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

std::vector<Measure> Evaluation::measures() const {
  std::vector<Measure> measures;
  for (const Metric& metric : metrics)
    for (Measure& measure : metric.measures()) measures.push_back(std::move(measure));
  return measures;
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
    *found += metric;
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
    for (Metric& metric : result.metrics) metric.clear();
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

nlohmann::json as_json(const Metric& metric) {
  nlohmann::json sums = nlohmann::json::array(), values = nlohmann::json::array();
  for (const double sum : metric.sums) sums.push_back(bits_of(sum));
  for (const double value : metric.values) values.push_back(bits_of(value));
  return {metric.name, static_cast<int>(metric.kind), std::move(sums), std::move(values)};
}

Metric metric_of(const nlohmann::json& described) {
  Metric metric(described[0], static_cast<Metric::Kind>(described[1].get<int>()), {});
  for (const nlohmann::json& sum : described[2]) metric.sums.push_back(double_of(sum));
  for (const nlohmann::json& value : described[3]) metric.values.push_back(double_of(value));
  return metric;
}

// Gives every stage the terms of all stages, and the metrics, which one stage has. Collective over the
// stages.
void join_stages(Bindings& bindings, Evaluation& evaluation) {
  const auto describe = [&] {
    nlohmann::json terms = nlohmann::json::array(), metrics = nlohmann::json::array();
    for (const Evaluation::Term& term : evaluation.terms)
      terms.push_back({term.name, term.weight, bits_of(term.sum), bits_of(term.count), term.output});
    for (const Metric& metric : evaluation.metrics) metrics.push_back(as_json(metric));
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
    for (const nlohmann::json& metric : stage.at("metrics")) evaluation.metrics.push_back(metric_of(metric));
  }
}

// Gives every rank the values of all samples. Collective over the ranks that have them.
void join_values(Bindings& bindings, Metric& metric) {
  if (metric.kind != Metric::Kind::kValues) return;
  // The ranks that divide the sequence of a sample have the same values.
  if (bindings.mesh().sequence_rank() != 0) metric.values.clear();
  const std::vector<std::string> all = gather_from_every_rank(bindings.comm(Mesh::samples())->communicator,
                                                              [&] { return as_json(metric)[3].dump(); });
  metric.values.clear();
  for (const std::string& text : all)
    for (const nlohmann::json& value : nlohmann::json::parse(text)) metric.values.push_back(double_of(value));
}

void sum_over_ranks(Bindings& bindings, Evaluation& evaluation) {
  const Mesh& mesh = bindings.mesh();
  if (mesh.splits(Mesh::stages())) join_stages(bindings, evaluation);
  if (!mesh.splits(Mesh::samples()) || evaluation.terms.empty()) return;
  std::vector<double> sums;
  for (const Evaluation::Term& term : evaluation.terms) sums.insert(sums.end(), {term.sum, term.count});
  for (const Metric& metric : evaluation.metrics)
    sums.insert(sums.end(), metric.sums.begin(), metric.sums.end());
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
    for (double& sum : metric.sums) sum = *summed++ / times;
    join_values(bindings, metric);
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

std::string Job::find_nonfinite(const Batch& batch) {
  Training& training = training_of(model);
  std::optional<EvaluationMode> mode;
  if (!training.keeps_random_state()) mode.emplace(training.bindings().model());
  const auto [unit, tensor] =
      training.find_nonfinite(micro_batches_of(batch, mode ? 1 : accumulate, training.bindings()));
  return unit.empty() ? "" : fmt::format("tensor {} of unit {}", tensor, unit);
}

void Job::average_weights(double decay) {
  average = std::make_shared<WeightAverage>(training_of(model).bindings(), decay);
}

void Job::swap_average() {
  if (!average)
    fail(WEFT_FAILED_PRECONDITION, "the job has no averaged weights; call average_weights before");
  average->swap();
}

State Job::forward(const Batch& batch) {
  Training& training = training_of(model);
  batch.samples();
  const EvaluationMode mode(training.bindings().model());
  return training.run_forward(micro_batches_of(batch, 1, training.bindings())).outputs;
}

}  // namespace weft
