#include "weft/nn/classifiers.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "layers/label_smoothing.hpp"
#include "models/answer_metrics.hpp"
#include "models/row_label_head.hpp"
#include "models/tags.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::nn {

namespace {

// Classifies each sequence by its last token.
class SequenceClassifier final : public Head {
 public:
  SequenceClassifier(torch::nn::Module& model, int64_t channels, const Labels& labels,
                     std::optional<int64_t> padding, at::ScalarType dtype)
      : labels_(labels), padding_(padding), padding_ends_texts_(ends_texts(model, padding)) {
    score_ = model.register_module("score", std::make_shared<Linear>(channels, labels.count, false, dtype));
  }

  std::vector<std::string> fields() const override { return {kLabels, kClassWeights}; }
  Labelled labelled() const override { return Labelled::kSamples; }
  void prepare(const BatchFields& batch, at::IntArrayRef positions, State& state) const override {
    labels_.check(batch, positions[0]);
    state.set(kLastTokens, last_tokens(batch, state.at(kInputIds)));
  }
  std::vector<torch::nn::Module*> modules() const override { return {score_.get()}; }
  // The norm and the classifier act on each position by itself, so they run on the last tokens only.
  void forward(const Finish& finish, State& state) const override {
    const at::Tensor last = select_positions(take(state, kHidden), take(state, kLastTokens));
    state.set(kLogits, (*score_)(finish(last)));
  }
  std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const override {
    return labels_.loss(outputs.at(kLogits), batch);
  }
  std::vector<LossCount> counts(const Batch& batch, at::IntArrayRef) const override {
    return labels_.counts(batch);
  }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    return labels_.metrics(outputs.at(kLogits), batch);
  }

 private:
  static constexpr const char* kLastTokens = "last_tokens";  // (N)

  // Returns whether the token of padding also ends texts, as the configuration says.
  static bool ends_texts(const torch::nn::Module& model, const std::optional<int64_t>& padding) {
    const auto* const configured = dynamic_cast<const Model*>(&model);
    if (configured == nullptr || !padding) return false;
    const nlohmann::json ends =
        nlohmann::json::parse(configured->config().json("eos_token_id"), nullptr, /*allow_exceptions=*/false);
    return ends.is_array() ? std::find(ends.begin(), ends.end(), *padding) != ends.end() : ends == *padding;
  }

  // Returns the position of the rightmost token that is not padding, or 0 if all are. Where no token stands
  // for padding alone, the attention mask tells it; otherwise masks are ignored, as Hugging Face does.
  at::Tensor last_tokens(const BatchFields& batch, const at::Tensor& ids) const {
    const int64_t rows = ids.size(0), positions = ids.size(1);
    if (batch.has(kAttentionMask) && (!padding_ || padding_ends_texts_))
      return at::arange(positions, ids.options()).mul(batch.batch().at(kAttentionMask).ne(0)).argmax(-1);
    if (!padding_) {
      if (rows != 1) {
        batch.refuse(
            kInputIds,
            fmt::format("Cannot handle batch sizes > 1 if no padding token is defined: the batch has {} "
                        "rows, and \"pad_token_id\" in the configuration is null",
                        rows));
      }
      return at::full({rows}, positions - 1, ids.options());
    }
    return at::arange(positions, ids.options()).mul(ids.ne(*padding_)).argmax(-1);
  }

  const ClassLabels labels_;
  const std::optional<int64_t> padding_;
  const bool padding_ends_texts_;
  std::shared_ptr<Linear> score_;
};

// Throws INVALID_ARGUMENT unless "class_weights", if the batch has them, are a real number for each sample
// and class.
void check_class_weights(const BatchFields& batch, int64_t rows, int64_t classes) {
  if (!batch.has(kClassWeights)) return;
  batch.reals(kClassWeights);
  batch.require_shape(kClassWeights, {{rows, classes}});
}

class TokenClassifier final : public RowLabelHead {
 public:
  TokenClassifier(torch::nn::Module& model, int64_t channels, const Labels& labels, double dropout,
                  at::ScalarType dtype, const std::string& name, bool bias)
      : num_labels_(labels.count), tags_(labels.names) {
    require_cross_entropy(labels, "a classifier of tokens");
    dropout_ = model.register_module("dropout", std::make_shared<Dropout>(dropout));
    classifier_ = model.register_module(name, std::make_shared<Linear>(channels, num_labels_, bias, dtype));
  }

  std::vector<std::string> fields() const override { return {kLabels, kClassWeights}; }
  Labelled labelled() const override { return Labelled::kTokens; }
  void prepare(const BatchFields& batch, at::IntArrayRef positions, State&) const override {
    check_class_weights(batch, positions[0], num_labels_);
    if (!batch.has(kLabels)) return;
    batch.require_shape(kLabels, {positions.vec()});
    batch.require_range(kLabels, num_labels_, true);
  }
  std::vector<torch::nn::Module*> modules() const override { return {dropout_.get(), classifier_.get()}; }
  void forward(const Finish& finish, State& state) const override {
    state.set(kLogits, (*classifier_)((*dropout_)(finish(take(state, kHidden)))));
  }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    const at::Tensor& logits = outputs.at(kLogits);
    std::vector<Metric> metrics = {RowLabels{batch.at(kLabels)}.classes(logits)};
    if (tags_.name_entities()) metrics.push_back(tags_.entities(logits.argmax(-1), batch.at(kLabels)));
    return metrics;
  }

 private:
  const int64_t num_labels_;
  const Tags tags_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<Linear> classifier_;
};

class AnswerHead final : public Head {
 public:
  AnswerHead(torch::nn::Module& model, int64_t channels, at::ScalarType dtype) {
    qa_outputs_ = model.register_module("qa_outputs", std::make_shared<Linear>(channels, 2, true, dtype));
  }

  std::vector<std::string> fields() const override { return {kSides[0].label, kSides[1].label}; }
  void prepare(const BatchFields& batch, at::IntArrayRef positions, State&) const override {
    for (int side : {0, 1}) {
      const char *here = kSides[side].label, *other = kSides[1 - side].label;
      if (!batch.has(here)) continue;
      batch.integers(here);
      batch.require_shape(here, {{positions[0]}, {positions[0], 1}});
      if (!batch.has(other)) batch.refuse(here, fmt::format("it needs \"{}\" beside it", other));
    }
  }
  std::vector<torch::nn::Module*> modules() const override { return {qa_outputs_.get()}; }
  void forward(const Finish& finish, State& state) const override {
    const at::Tensor logits = (*qa_outputs_)(finish(take(state, kHidden)));
    for (int side : {0, 1}) state.set(kSides[side].logits, logits.select(-1, side).contiguous());
  }
  std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kSides[0].label)) return {};
    std::vector<LossTerm> terms;
    for (const Side& side : kSides) {
      const at::Tensor& logits = outputs.at(side.logits);
      const RowLabels labels = answer_labels(batch.at(side.label), logits.size(-1));
      terms.push_back({side.term, 0.5, labels.cross_entropy(logits)});
    }
    return terms;
  }
  std::vector<LossCount> counts(const Batch& batch, at::IntArrayRef positions) const override {
    if (!batch.has(kSides[0].label)) return {};
    std::vector<LossCount> counts;
    for (const Side& side : kSides)
      counts.push_back({side.term, answer_labels(batch.at(side.label), positions.back()).count()});
    return counts;
  }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kSides[0].label)) return {};
    const at::Tensor& ids = batch.at(kInputIds);
    const at::Tensor* mask = batch.find(kAttentionMask);
    return answer_metrics({outputs.at(kSides[0].logits), outputs.at(kSides[1].logits)},
                          {batch.at(kSides[0].label), batch.at(kSides[1].label)}, ids,
                          mask ? *mask : at::Tensor());
  }

 private:
  struct Side {
    const char* label;
    const char* logits;
    const char* term;
  };
  static constexpr Side kSides[] = {{"start_positions", "start_logits", "start_loss"},
                                    {"end_positions", "end_logits", "end_loss"}};

  std::shared_ptr<Linear> qa_outputs_;
};

}  // namespace

void require_cross_entropy(const Labels& labels, std::string_view who) {
  constexpr const char* kSingle = "single_label_classification";
  if (!labels.problem.empty() && labels.problem != kSingle)
    fail(
        WEFT_INVALID_ARGUMENT,
        "{}: \"problem_type\" is \"{}\", but {} computes the cross entropy of one label, as in Hugging Face; "
        "leave the key out or set it to \"{}\"",
        labels.origin, labels.problem, who, kSingle);
  if (labels.count < 2)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the configuration has 1 label, but the loss of {} is the cross entropy, which is always 0 for "
         "one label; give \"id2label\" (or \"num_labels\") 2 labels or more",
         labels.origin, who);
}

ClassLabels::Problem ClassLabels::problem(const at::Tensor& labels) const {
  if (labels_.problem == "regression") return Problem::kRegression;
  if (labels_.problem == "single_label_classification") return Problem::kSingleLabel;
  if (labels_.problem == "multi_label_classification") return Problem::kMultiLabel;
  if (labels_.count == 1) return Problem::kRegression;
  return labels.is_floating_point() ? Problem::kMultiLabel : Problem::kSingleLabel;
}

void ClassLabels::check(const BatchFields& batch, int64_t rows) const {
  check_class_weights(batch, rows, labels_.count);
  if (!batch.has(kLabels)) return;
  const Problem problem = this->problem(batch.batch().at(kLabels));
  if (problem == Problem::kRegression && batch.has(kClassWeights))
    batch.refuse(kClassWeights, "the labels are those of a regression, which has no classes");
  if (batch.has(kLabelProbabilities)) {
    batch.reals(kLabelProbabilities);
    batch.require_shape(kLabelProbabilities, {{rows, labels_.count}});
    if (problem != Problem::kSingleLabel)
      batch.refuse(kLabelProbabilities, "the labels are not one class a sample (\"problem_type\")");
  }
  if (problem == Problem::kSingleLabel) {
    batch.require_shape(kLabels, {{rows}, {rows, 1}});
    batch.require_range(kLabels, labels_.count, true);
    return;
  }
  batch.reals(kLabels);
  if (problem == Problem::kRegression && labels_.count == 1) {
    batch.require_shape(kLabels, {{rows}, {rows, 1}});
  } else {
    batch.require_shape(kLabels, {{rows, labels_.count}});
  }
}

namespace {

RowLabels row_labels(const Batch& batch) {
  return {batch.at(kLabels), kIgnored, find_or_undefined(batch, kClassWeights)};
}

// Returns how much the logarithm of each class counts in the cross entropy, (rows, classes): the
// probabilities of the labels, smoothed, times the weights of the classes.
at::Tensor soft_targets(const Batch& batch, double smoothing) {
  const at::Tensor* const probabilities = batch.find(kLabelProbabilities);
  const auto classes = static_cast<double>(probabilities->size(-1));
  const at::Tensor counts = batch.at(kLabels).reshape({-1, 1}).ne(kIgnored);
  const at::Tensor* const weights = batch.find(kClassWeights);
  const at::Tensor targets = (*probabilities * (1 - smoothing) + smoothing / classes) * counts;
  return weights == nullptr ? targets : targets * *weights;
}

// Returns the statistics of predictions of several labels a sample. logits and labels: (N, K).
Metric indicators(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor predicted = logits.gt(0), wanted = labels.to(logits.device()).gt(0.5);
  const auto by_label = [](const at::Tensor& flags) {
    return device::values_of<double>(flags.sum(0).to(at::kDouble));
  };
  const std::vector<double> right = by_label(predicted.logical_and(wanted)), found = by_label(predicted),
                            all = by_label(wanted);
  std::vector<double> sums;
  for (size_t k = 0; k < all.size(); ++k) sums.insert(sums.end(), {right[k], found[k], all[k]});
  sums.push_back(device::value_of<double>(predicted.eq(wanted).all(-1).sum()));
  sums.push_back(static_cast<double>(labels.size(0)));
  return {"labels", Metric::Kind::kIndicators, std::move(sums)};
}

// Returns the labels and predictions of a regression of one number a sample, or the mean squared error of
// several.
Metric regression(const at::Tensor& logits, const at::Tensor& labels) {
  const auto values = [](const at::Tensor& of) {
    return device::values_of<double>(device::on_host(of).reshape(-1).to(at::kDouble));
  };
  const std::vector<double> predicted = values(logits), wanted = values(labels);
  Metric metric("values", Metric::Kind::kValues, {});
  double squares = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    metric.values.insert(metric.values.end(), {wanted[i], predicted[i]});
    squares += (wanted[i] - predicted[i]) * (wanted[i] - predicted[i]);
  }
  return logits.size(-1) == 1 ? metric : Metric("mse", squares, static_cast<double>(wanted.size()));
}

}  // namespace

std::vector<LossTerm> ClassLabels::loss(const at::Tensor& logits, const Batch& batch) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor& labels = batch.at(kLabels);
  const auto targets = [&] { return labels.to(logits.scalar_type()); };
  switch (problem(labels)) {
    case Problem::kSingleLabel: {
      if (!batch.has(kLabelProbabilities)) return {{"loss", 1, row_labels(batch).cross_entropy(logits)}};
      const at::Tensor soft = soft_targets(batch, label_smoothing());
      const at::Tensor exact =
          at::isReducedFloatingType(logits.scalar_type()) ? logits.to(at::kFloat) : logits;
      return {{"loss", 1, exact.log_softmax(-1).mul(soft.to(exact.options())).sum().neg()}};
    }
    case Problem::kMultiLabel: {
      const at::Tensor* const weights = batch.find(kClassWeights);
      std::optional<at::Tensor> positive;
      if (weights != nullptr) positive = weights->to(logits.options());
      return {{"loss", 1,
               at::binary_cross_entropy_with_logits(logits, targets(), {}, positive, at::Reduction::Sum)}};
    }
    case Problem::kRegression:
      return {{"loss", 1, at::mse_loss(logits, targets().view_as(logits), at::Reduction::Sum)}};
  }
  return {};
}

std::vector<LossCount> ClassLabels::counts(const Batch& batch) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor& labels = batch.at(kLabels);
  if (problem(labels) == Problem::kSingleLabel) {
    const bool weighted_softly = batch.has(kLabelProbabilities) && batch.has(kClassWeights);
    if (!weighted_softly) return {{"loss", row_labels(batch).count()}};
    return {{"loss", device::value_of<double>(soft_targets(batch, 0).sum(at::kDouble))}};
  }
  return {{"loss", static_cast<double>(labels.numel())}};
}

std::vector<Metric> ClassLabels::metrics(const at::Tensor& logits, const Batch& batch) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor& labels = batch.at(kLabels);
  switch (problem(labels)) {
    case Problem::kSingleLabel:
      return {RowLabels{labels}.classes(logits)};
    case Problem::kMultiLabel:
      return {indicators(logits, labels)};
    case Problem::kRegression:
      return {regression(logits, labels)};
  }
  return {};
}

std::unique_ptr<Head> make_sequence_classifier(torch::nn::Module& model, int64_t channels,
                                               const Labels& labels, std::optional<int64_t> padding,
                                               at::ScalarType dtype) {
  return std::make_unique<SequenceClassifier>(model, channels, labels, padding, dtype);
}

std::unique_ptr<Head> make_token_classifier(torch::nn::Module& model, int64_t channels, const Labels& labels,
                                            double dropout, at::ScalarType dtype, const std::string& name,
                                            bool bias) {
  return std::make_unique<TokenClassifier>(model, channels, labels, dropout, dtype, name, bias);
}

std::unique_ptr<Head> make_answer_head(torch::nn::Module& model, int64_t channels, at::ScalarType dtype) {
  return std::make_unique<AnswerHead>(model, channels, dtype);
}

}  // namespace weft::nn
