// The heads that label sequences or tokens.
#include <ATen/ops/arange.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>

#include "base/text.hpp"
#include "weft/nn/head.hpp"

namespace weft::nn {

namespace {

constexpr const char* kLogits = "logits";

// One position of each sequence is classified: its last token.
class SequenceClassifier final : public Head {
 public:
  SequenceClassifier(torch::nn::Module& model, int64_t channels, const Labels& labels,
                     std::optional<int64_t> padding, at::ScalarType dtype)
      : labels_(labels), padding_(padding) {
    score_ = model.register_module("score", std::make_shared<Linear>(channels, labels.count, false, dtype));
  }

  std::vector<std::string> fields() const override { return {kLabels}; }
  void prepare(const BatchFields& batch, const at::Tensor& ids, State& state) const override {
    if (batch.has(kLabels)) check_labels(batch, ids.size(0));
    state.set(kLastTokens, last_tokens(batch, ids));
  }
  std::vector<torch::nn::Module*> modules() const override { return {score_.get()}; }
  // Norm and score act on each position alone, so those that nobody asks for are left out.
  void forward(const Finish& finish, State& state) const override {
    const at::Tensor last = select_positions(take(state, kHidden), take(state, kLastTokens));
    state.set(kLogits, (*score_)(finish(last)));
  }
  std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    const at::Tensor &logits = outputs.at(kLogits), &labels = batch.at(kLabels);
    switch (problem(labels)) {
      case Problem::kSingleLabel:
        return {{"loss", 1, cross_entropy_sum(logits, labels.to(at::kLong).reshape(-1))}};
      case Problem::kMultiLabel: {
        const at::Tensor targets = labels.to(logits.scalar_type());
        return {
            {"loss", 1, at::binary_cross_entropy_with_logits(logits, targets, {}, {}, at::Reduction::Sum)}};
      }
      case Problem::kRegression: {
        const at::Tensor targets = labels.to(logits.scalar_type()).view_as(logits);
        return {{"loss", 1, at::mse_loss(logits, targets, at::Reduction::Sum)}};
      }
    }
    return {};
  }
  std::vector<LossCount> counts(const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    const at::Tensor& labels = batch.at(kLabels);
    if (problem(labels) == Problem::kSingleLabel) return {{"loss", count_labels(labels)}};
    return {{"loss", static_cast<double>(labels.numel())}};
  }

 private:
  static constexpr const char* kLastTokens = "last_tokens";  // (N)
  enum class Problem { kRegression, kSingleLabel, kMultiLabel };

  Problem problem(const at::Tensor& labels) const {
    if (labels_.problem == "regression") return Problem::kRegression;
    if (labels_.problem == "single_label_classification") return Problem::kSingleLabel;
    if (labels_.problem == "multi_label_classification") return Problem::kMultiLabel;
    if (labels_.count == 1) return Problem::kRegression;
    return labels.is_floating_point() ? Problem::kMultiLabel : Problem::kSingleLabel;
  }

  void check_labels(const BatchFields& batch, int64_t rows) const {
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

  // The rightmost token that is no padding; 0 in a row of padding. Attention masks do not matter.
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

  const Labels labels_;
  const std::optional<int64_t> padding_;
  std::shared_ptr<Linear> score_;
};

class TokenClassifier final : public Head {
 public:
  TokenClassifier(torch::nn::Module& model, int64_t channels, const Labels& labels, double dropout,
                  at::ScalarType dtype)
      : num_labels_(labels.count) {
    dropout_ = model.register_module("dropout", std::make_shared<Dropout>(dropout));
    classifier_ =
        model.register_module("classifier", std::make_shared<Linear>(channels, num_labels_, true, dtype));
  }

  std::vector<std::string> fields() const override { return {kLabels}; }
  void prepare(const BatchFields& batch, const at::Tensor& ids, State&) const override {
    if (!batch.has(kLabels)) return;
    batch.require_shape(kLabels, {ids.sizes().vec()});
    batch.require_range(kLabels, num_labels_, true);
  }
  std::vector<torch::nn::Module*> modules() const override { return {dropout_.get(), classifier_.get()}; }
  void forward(const Finish& finish, State& state) const override {
    state.set(kLogits, (*classifier_)((*dropout_)(finish(take(state, kHidden)))));
  }
  std::vector<LossTerm> loss(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    return {{"loss", 1, cross_entropy_sum(outputs.at(kLogits), batch.at(kLabels).to(at::kLong))}};
  }
  std::vector<LossCount> counts(const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    return {{"loss", count_labels(batch.at(kLabels))}};
  }

 private:
  const int64_t num_labels_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<Linear> classifier_;
};

}  // namespace

std::unique_ptr<Head> make_sequence_classifier(torch::nn::Module& model, int64_t channels,
                                               const Labels& labels, std::optional<int64_t> padding,
                                               at::ScalarType dtype) {
  return std::make_unique<SequenceClassifier>(model, channels, labels, padding, dtype);
}

std::unique_ptr<Head> make_token_classifier(torch::nn::Module& model, int64_t channels, const Labels& labels,
                                            double dropout, at::ScalarType dtype) {
  return std::make_unique<TokenClassifier>(model, channels, labels, dropout, dtype);
}

}  // namespace weft::nn
