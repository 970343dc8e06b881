// The heads that label sequences, tokens or answers, and the base model, which has none.
#include <ATen/ops/arange.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/mse_loss.h>

#include "base/text.hpp"
#include "head.hpp"

namespace weft::gpt2 {

namespace {

constexpr const char* kLogits = "logits";
constexpr const char* kLabels = "labels";

at::Tensor take(State& state, std::string_view name) {
  at::Tensor field = state.at(name);
  state.erase(name);
  return field;
}

class BaseHead final : public Head {
 public:
  void forward(const nn::LayerNorm& ln_f, State& state) const override {
    state.set("last_hidden_state", ln_f(take(state, kHidden)));
  }
};

// One position of each sequence is classified: its last token.
class SequenceClassifier final : public Head {
 public:
  explicit SequenceClassifier(const HeadSetting& setting)
      : padding_(setting.config.pad_token_id),
        num_labels_(setting.config.num_labels),
        problem_type_(setting.config.problem_type) {
    score_ = setting.model.register_module(
        "score", std::make_shared<nn::Linear>(setting.config.n_embd, num_labels_, false, setting.dtype));
  }

  std::vector<std::string> fields() const override { return {kLabels}; }
  void prepare(const BatchFields& batch, const at::Tensor& ids, State& state) const override {
    if (batch.has(kLabels)) check_labels(batch, ids.size(0));
    state.set(kLastTokens, last_tokens(batch, ids));
  }
  std::vector<torch::nn::Module*> modules() const override { return {score_.get()}; }
  // Norm and score act on each position alone, so those that nobody asks for are left out.
  void forward(const nn::LayerNorm& ln_f, State& state) const override {
    const at::Tensor last = select_positions(take(state, kHidden), take(state, kLastTokens));
    state.set(kLogits, (*score_)(ln_f(last)));
  }
  std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    const at::Tensor &logits = outputs.at(kLogits), &labels = batch.at(kLabels);
    switch (problem(labels)) {
      case Problem::kSingleLabel:
        return {{"loss", 1, nn::cross_entropy_sum(logits, labels.to(at::kLong).reshape(-1))}};
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
  std::vector<nn::LossCount> counts(const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    const at::Tensor& labels = batch.at(kLabels);
    if (problem(labels) == Problem::kSingleLabel) return {{"loss", nn::count_labels(labels)}};
    return {{"loss", static_cast<double>(labels.numel())}};
  }

 private:
  static constexpr const char* kLastTokens = "last_tokens";  // (N)
  enum class Problem { kRegression, kSingleLabel, kMultiLabel };

  Problem problem(const at::Tensor& labels) const {
    if (problem_type_ == "regression") return Problem::kRegression;
    if (problem_type_ == "single_label_classification") return Problem::kSingleLabel;
    if (problem_type_ == "multi_label_classification") return Problem::kMultiLabel;
    if (num_labels_ == 1) return Problem::kRegression;
    return labels.is_floating_point() ? Problem::kMultiLabel : Problem::kSingleLabel;
  }

  void check_labels(const BatchFields& batch, int64_t rows) const {
    const Problem problem = this->problem(batch.batch().at(kLabels));
    if (problem == Problem::kSingleLabel) {
      batch.require_shape(kLabels, {{rows}, {rows, 1}});
      batch.require_range(kLabels, num_labels_, true);
      return;
    }
    batch.reals(kLabels);
    if (problem == Problem::kRegression && num_labels_ == 1) {
      batch.require_shape(kLabels, {{rows}, {rows, 1}});
    } else {
      batch.require_shape(kLabels, {{rows, num_labels_}});
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

  const std::optional<int64_t> padding_;
  const int64_t num_labels_;
  const std::string problem_type_;
  std::shared_ptr<nn::Linear> score_;
};

class TokenClassifier final : public Head {
 public:
  explicit TokenClassifier(const HeadSetting& setting) : num_labels_(setting.config.num_labels) {
    dropout_ = setting.model.register_module(
        "dropout", std::make_shared<nn::Dropout>(setting.config.classifier_dropout));
    classifier_ = setting.model.register_module(
        "classifier", std::make_shared<nn::Linear>(setting.config.n_embd, num_labels_, true, setting.dtype));
  }

  std::vector<std::string> fields() const override { return {kLabels}; }
  void prepare(const BatchFields& batch, const at::Tensor& ids, State& state) const override {
    if (!batch.has(kLabels)) return;
    batch.require_shape(kLabels, {ids.sizes().vec()});
    batch.require_range(kLabels, num_labels_, true);
  }
  std::vector<torch::nn::Module*> modules() const override { return {dropout_.get(), classifier_.get()}; }
  void forward(const nn::LayerNorm& ln_f, State& state) const override {
    state.set(kLogits, (*classifier_)((*dropout_)(ln_f(take(state, kHidden)))));
  }
  std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    return {{"loss", 1, nn::cross_entropy_sum(outputs.at(kLogits), batch.at(kLabels).to(at::kLong))}};
  }
  std::vector<nn::LossCount> counts(const Batch& batch) const override {
    if (!batch.has(kLabels)) return {};
    return {{"loss", nn::count_labels(batch.at(kLabels))}};
  }

 private:
  const int64_t num_labels_;
  std::shared_ptr<nn::Dropout> dropout_;
  std::shared_ptr<nn::Linear> classifier_;
};

// Where an answer begins and ends: two classifications over all positions, padding too.
class AnswerHead final : public Head {
 public:
  explicit AnswerHead(const HeadSetting& setting) {
    qa_outputs_ = setting.model.register_module(
        "qa_outputs", std::make_shared<nn::Linear>(setting.config.n_embd, 2, true, setting.dtype));
  }

  std::vector<std::string> fields() const override { return {kSides[0].label, kSides[1].label}; }
  void prepare(const BatchFields& batch, const at::Tensor& ids, State& state) const override {
    for (int side : {0, 1}) {
      const char *here = kSides[side].label, *other = kSides[1 - side].label;
      if (!batch.has(here)) continue;
      batch.integers(here);
      batch.require_shape(here, {{ids.size(0)}, {ids.size(0), 1}});
      if (!batch.has(other)) batch.refuse(here, fmt::format("it needs \"{}\" beside it", other));
    }
  }
  std::vector<torch::nn::Module*> modules() const override { return {qa_outputs_.get()}; }
  void forward(const nn::LayerNorm& ln_f, State& state) const override {
    const at::Tensor logits = (*qa_outputs_)(ln_f(take(state, kHidden)));
    for (int side : {0, 1}) state.set(kSides[side].logits, logits.select(-1, side).contiguous());
  }
  std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kSides[0].label)) return {};
    std::vector<nn::LossTerm> terms;
    for (const Side& side : kSides) {
      const at::Tensor& logits = outputs.at(side.logits);
      const int64_t positions = logits.size(-1);
      const at::Tensor labels = batch.at(side.label).to(at::kLong).reshape(-1).clamp(0, positions);
      terms.push_back({side.term, 0.5, nn::cross_entropy_sum(logits, labels, positions)});
    }
    return terms;
  }
  // A position before the text is its first one, one behind the text is ignored.
  std::vector<nn::LossCount> counts(const Batch& batch) const override {
    if (!batch.has(kSides[0].label)) return {};
    const int64_t positions = batch.at(kInputIds).size(-1);
    std::vector<nn::LossCount> counts;
    for (const Side& side : kSides) {
      counts.push_back({side.term, batch.at(side.label).lt(positions).sum().item<double>()});
    }
    return counts;
  }

 private:
  struct Side {
    const char* label;
    const char* logits;
    const char* term;
  };
  static constexpr Side kSides[] = {{"start_positions", "start_logits", "start_loss"},
                                    {"end_positions", "end_logits", "end_loss"}};

  std::shared_ptr<nn::Linear> qa_outputs_;
};

}  // namespace

std::unique_ptr<Head> make_base_head(const HeadSetting& setting) {
  return std::make_unique<BaseHead>();
}

std::unique_ptr<Head> make_sequence_classifier(const HeadSetting& setting) {
  return std::make_unique<SequenceClassifier>(setting);
}

std::unique_ptr<Head> make_token_classifier(const HeadSetting& setting) {
  return std::make_unique<TokenClassifier>(setting);
}

std::unique_ptr<Head> make_answer_head(const HeadSetting& setting) {
  return std::make_unique<AnswerHead>(setting);
}

}  // namespace weft::gpt2
