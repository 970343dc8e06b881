#include "weft/nn/classifiers.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "models/answer_metrics.hpp"
#include "models/row_label_head.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::nn {

namespace {

// Classifies each sequence by its last token.
class SequenceClassifier final : public Head {
 public:
  SequenceClassifier(torch::nn::Module& model, int64_t channels, const Labels& labels,
                     std::optional<int64_t> padding, at::ScalarType dtype)
      : labels_(labels), padding_(padding) {
    score_ = model.register_module("score", std::make_shared<Linear>(channels, labels.count, false, dtype));
  }

  std::vector<std::string> fields() const override { return {kLabels}; }
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

  // Returns the position of the rightmost token that is not padding, or 0 if all are. Ignores attention
  // masks, as Hugging Face does.
  at::Tensor last_tokens(const BatchFields& batch, const at::Tensor& ids) const {
    const int64_t rows = ids.size(0), positions = ids.size(1);
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
  std::shared_ptr<Linear> score_;
};

class TokenClassifier final : public RowLabelHead {
 public:
  TokenClassifier(torch::nn::Module& model, int64_t channels, const Labels& labels, double dropout,
                  at::ScalarType dtype, const std::string& name, bool bias)
      : num_labels_(labels.count) {
    require_cross_entropy(labels, "a classifier of tokens");
    dropout_ = model.register_module("dropout", std::make_shared<Dropout>(dropout));
    classifier_ = model.register_module(name, std::make_shared<Linear>(channels, num_labels_, bias, dtype));
  }

  void prepare(const BatchFields& batch, at::IntArrayRef positions, State&) const override {
    if (!batch.has(kLabels)) return;
    batch.require_shape(kLabels, {positions.vec()});
    batch.require_range(kLabels, num_labels_, true);
  }
  std::vector<torch::nn::Module*> modules() const override { return {dropout_.get(), classifier_.get()}; }
  void forward(const Finish& finish, State& state) const override {
    state.set(kLogits, (*classifier_)((*dropout_)(finish(take(state, kHidden)))));
  }

 private:
  const int64_t num_labels_;
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
  if (!batch.has(kLabels)) return;
  const Problem problem = this->problem(batch.batch().at(kLabels));
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

std::vector<LossTerm> ClassLabels::loss(const at::Tensor& logits, const Batch& batch) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor& labels = batch.at(kLabels);
  const auto targets = [&] { return labels.to(logits.scalar_type()); };
  switch (problem(labels)) {
    case Problem::kSingleLabel:
      return {{"loss", 1, RowLabels{labels}.cross_entropy(logits)}};
    case Problem::kMultiLabel:
      return {
          {"loss", 1, at::binary_cross_entropy_with_logits(logits, targets(), {}, {}, at::Reduction::Sum)}};
    case Problem::kRegression:
      return {{"loss", 1, at::mse_loss(logits, targets().view_as(logits), at::Reduction::Sum)}};
  }
  return {};
}

std::vector<LossCount> ClassLabels::counts(const Batch& batch) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor& labels = batch.at(kLabels);
  if (problem(labels) == Problem::kSingleLabel) return {{"loss", RowLabels{labels}.count()}};
  return {{"loss", static_cast<double>(labels.numel())}};
}

std::vector<Metric> ClassLabels::metrics(const at::Tensor& logits, const Batch& batch) const {
  if (!batch.has(kLabels)) return {};
  const at::Tensor& labels = batch.at(kLabels);
  switch (problem(labels)) {
    case Problem::kSingleLabel:
      return {RowLabels{labels}.accuracy(logits)};
    case Problem::kMultiLabel: {
      const at::Tensor right = logits.gt(0).eq(labels.gt(0.5)).all(-1);
      return {{"accuracy", device::value_of<double>(right.sum()), static_cast<double>(right.numel())}};
    }
    case Problem::kRegression:
      return {};
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
