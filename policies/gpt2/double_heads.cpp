#include "double_heads.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/mean.h>

#include "weft/nn/row_labels.hpp"

namespace weft::gpt2 {

namespace {

constexpr const char* kLogits = "logits";
constexpr const char* kChoiceLogits = "mc_logits";
constexpr const char* kChoiceLabels = "mc_labels";
constexpr const char* kChoiceTokens = "mc_token_ids";

// Hugging Face's GPT2SequenceSummary: selects one hidden state of a sequence and projects it.
class Summary {
 public:
  Summary(torch::nn::Module& model, const Gpt2Config& config, at::ScalarType dtype)
      : config_(config.summary) {
    const auto choices = model.register_module("multiple_choice_head", std::make_shared<torch::nn::Module>());
    // Hugging Face's class always has one label, whatever num_labels is.
    if (config_.use_projection) {
      const int64_t out = config_.project_to_labels ? 1 : config.n_embd;
      summary_ =
          choices->register_module("summary", std::make_shared<nn::Linear>(config.n_embd, out, true, dtype));
    }
    first_dropout_ =
        choices->register_module("first_dropout", std::make_shared<nn::Dropout>(config_.first_dropout));
    last_dropout_ =
        choices->register_module("last_dropout", std::make_shared<nn::Dropout>(config_.last_dropout));
    activation_ = config_.activation.empty() ? nullptr : nn::activation(config_.activation);
    module_ = choices.get();
    width_ = config_.use_projection && config_.project_to_labels ? 1 : config.n_embd;
  }

  torch::nn::Module* module() const { return module_; }

  // hidden: (B, C, T, E) or (B, T, E); tokens: (B, C) or (B).
  at::Tensor operator()(const at::Tensor& hidden, const at::Tensor& tokens) const {
    at::Tensor x = (*first_dropout_)(pick(hidden, tokens));
    if (summary_) x = (*summary_)(x);
    if (activation_) x = activation_(x);
    return (*last_dropout_)(x).squeeze(-1);
  }

  // Returns the shape of the result for positions of this shape.
  std::vector<int64_t> shape(at::IntArrayRef positions) const {
    std::vector<int64_t> shape = positions.vec();
    shape.erase(config_.type == SummaryConfig::Type::kClsIndex ? shape.end() - 1 : shape.begin() + 1);
    if (width_ != 1) shape.push_back(width_);
    return shape;
  }

 private:
  // Selects along dim 1, except for cls_index. As in Hugging Face, dim 1 counts choices if there are any.
  at::Tensor pick(const at::Tensor& hidden, const at::Tensor& tokens) const {
    switch (config_.type) {
      case SummaryConfig::Type::kLast:
        return hidden.select(1, hidden.size(1) - 1);
      case SummaryConfig::Type::kFirst:
        return hidden.select(1, 0);
      case SummaryConfig::Type::kMean:
        return hidden.mean(1);
      case SummaryConfig::Type::kClsIndex:
        return nn::select_positions(hidden, tokens);
    }
    return {};
  }

  SummaryConfig config_;
  int64_t width_ = 1;
  torch::nn::Module* module_ = nullptr;
  std::shared_ptr<nn::Linear> summary_;
  std::shared_ptr<nn::Dropout> first_dropout_, last_dropout_;
  nn::ActivationFunction activation_ = nullptr;
};

class DoubleHeads final : public nn::Head {
 public:
  DoubleHeads(torch::nn::Module& model, const Gpt2Config& config, const nn::LanguageHead::Options& options)
      : language_(model, options), summary_(model, config, options.dtype) {}

  std::vector<std::string> fields() const override { return {nn::kLabels, kChoiceTokens, kChoiceLabels}; }
  bool has_choices() const override { return true; }
  void prepare(const nn::BatchFields& batch, at::IntArrayRef positions, State& state) const override {
    language_.prepare(batch, positions, state);
    const at::IntArrayRef rows = positions.slice(0, positions.size() - 1);
    if (batch.has(kChoiceTokens)) {
      batch.require_shape(kChoiceTokens, {rows.vec()});
      batch.require_range(kChoiceTokens, positions.back());
      state.set(kChoiceTokens, batch.integers(kChoiceTokens));
    } else {
      state.set(kChoiceTokens, at::full(rows, positions.back() - 1, at::kLong));
    }
    check_choice_labels(batch, positions);
  }
  std::vector<torch::nn::Module*> modules() const override {
    std::vector<torch::nn::Module*> modules = language_.modules();
    modules.push_back(summary_.module());
    return modules;
  }
  void forward(const Finish& finish, State& state) const override {
    const at::Tensor tokens = nn::take(state, kChoiceTokens);
    const at::Tensor normed = finish(nn::take(state, nn::kHidden));
    std::vector<int64_t> shape = tokens.sizes().vec();
    shape.insert(shape.end(), {normed.size(-2), normed.size(-1)});
    const at::Tensor hidden = normed.view(shape);
    state.set(kLogits, language_.logits(hidden));
    state.set(kChoiceLogits, summary_(hidden, tokens));
  }
  std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const override {
    std::vector<nn::LossTerm> terms = language_.loss(outputs, batch);
    if (batch.has(kChoiceLabels)) {
      const nn::RowLabels labels = {batch.at(kChoiceLabels)};
      terms.push_back({"mc_loss", 1, labels.cross_entropy(outputs.at(kChoiceLogits)), "mc_loss"});
    }
    return terms;
  }
  std::vector<nn::LossCount> counts(const Batch& batch, at::IntArrayRef positions) const override {
    std::vector<nn::LossCount> counts = language_.counts(batch, positions);
    if (batch.has(kChoiceLabels))
      counts.push_back({"mc_loss", nn::RowLabels{batch.at(kChoiceLabels)}.count()});
    return counts;
  }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    if (!batch.has(kChoiceLabels)) return {};
    return {nn::RowLabels{batch.at(kChoiceLabels)}.accuracy(outputs.at(kChoiceLogits))};
  }
  std::vector<nn::Objective> objectives() const override { return language_.objectives(); }
  std::string perplexity_term() const override { return language_.perplexity_term(); }
  std::vector<nn::Tie> ties() const override { return language_.ties(); }

 private:
  // mc_logits have one label per row; their last dim counts classes.
  void check_choice_labels(const nn::BatchFields& batch, at::IntArrayRef positions) const {
    if (!batch.has(kChoiceLabels)) return;
    const std::vector<int64_t> logits = summary_.shape(positions);
    const int64_t labels = c10::multiply_integers(logits) / logits.back();
    if (batch.integers(kChoiceLabels).numel() != labels) {
      batch.refuse(kChoiceLabels, "its shape is " + nn::shape_text(batch.batch().at(kChoiceLabels).sizes()) +
                                      ", but mc_logits will be " + nn::shape_text(logits) + ", which wants " +
                                      std::to_string(labels) + " labels");
    }
    batch.require_range(kChoiceLabels, logits.back(), true);
  }

  nn::LanguageHead language_;
  Summary summary_;
};

}  // namespace

std::unique_ptr<nn::Head> make_double_heads(torch::nn::Module& model, const Gpt2Config& config,
                                            nn::LanguageHead::Options options) {
  options.term = "lm_loss";
  return std::make_unique<DoubleHeads>(model, config, options);
}

}  // namespace weft::gpt2
