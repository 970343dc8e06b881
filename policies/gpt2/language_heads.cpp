// The heads that predict tokens: GPT2LMHeadModel, GPT2DoubleHeadsModel.
#include <ATen/ops/full.h>
#include <ATen/ops/mean.h>

#include "base/text.hpp"
#include "head.hpp"

namespace weft::gpt2 {

namespace {

constexpr const char* kLogits = "logits";
constexpr const char* kChoiceLogits = "mc_logits";
constexpr const char* kChoiceLabels = "mc_labels";
constexpr const char* kChoiceTokens = "mc_token_ids";

nn::LanguageHead::Options language_options(const HeadSetting& setting, const char* term) {
  const Gpt2Config& config = setting.config;
  nn::LanguageHead::Options options = {config.n_embd, config.vocab_size, setting.dtype};
  options.term = term;
  if (config.tie_word_embeddings) {
    options.tied = setting.trunk.wte.get();
    options.tied_name = "transformer.wte.weight";
  }
  return options;
}

// Hugging Face's GPT2SequenceSummary: one vector out of those of a sequence, projected.
class Summary {
 public:
  explicit Summary(const HeadSetting& setting) : config_(setting.config.summary) {
    const auto choices =
        setting.model.register_module("multiple_choice_head", std::make_shared<torch::nn::Module>());
    // Hugging Face's class takes one label, whatever the configuration says.
    if (config_.use_projection) {
      const int64_t out = config_.project_to_labels ? 1 : setting.config.n_embd;
      summary_ = choices->register_module(
          "summary", std::make_shared<nn::Linear>(setting.config.n_embd, out, true, setting.dtype));
    }
    first_dropout_ =
        choices->register_module("first_dropout", std::make_shared<nn::Dropout>(config_.first_dropout));
    last_dropout_ =
        choices->register_module("last_dropout", std::make_shared<nn::Dropout>(config_.last_dropout));
    activation_ = config_.activation.empty() ? nullptr : nn::activation(config_.activation);
    module_ = choices.get();
    width_ = config_.use_projection && config_.project_to_labels ? 1 : setting.config.n_embd;
  }

  torch::nn::Module* module() const { return module_; }

  // hidden: (B, C, T, E) or (B, T, E); tokens: (B, C) or (B).
  at::Tensor operator()(const at::Tensor& hidden, const at::Tensor& tokens) const {
    at::Tensor x = (*first_dropout_)(pick(hidden, tokens));
    if (summary_) x = (*summary_)(x);
    if (activation_) x = activation_(x);
    return (*last_dropout_)(x).squeeze(-1);
  }

  // The shape of what it returns for input_ids of this shape.
  std::vector<int64_t> shape(at::IntArrayRef ids) const {
    std::vector<int64_t> shape = ids.vec();
    shape.erase(config_.type == SummaryConfig::Type::kClsIndex ? shape.end() - 1 : shape.begin() + 1);
    if (width_ != 1) shape.push_back(width_);
    return shape;
  }

 private:
  // All but cls_index act on dim 1, which are the choices where there are any: so does Hugging Face.
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
  explicit DoubleHeads(const HeadSetting& setting)
      : language_(setting.model, language_options(setting, "lm_loss")), summary_(setting) {}

  std::vector<std::string> fields() const override { return {nn::kLabels, kChoiceTokens, kChoiceLabels}; }
  bool has_choices() const override { return true; }
  void prepare(const nn::BatchFields& batch, const at::Tensor& ids, State& state) const override {
    language_.prepare(batch, ids, state);
    const at::IntArrayRef rows = ids.sizes().slice(0, ids.dim() - 1);
    if (batch.has(kChoiceTokens)) {
      batch.require_shape(kChoiceTokens, {rows.vec()});
      batch.require_range(kChoiceTokens, ids.size(-1));
      state.set(kChoiceTokens, batch.integers(kChoiceTokens));
    } else {
      state.set(kChoiceTokens, at::full(rows, ids.size(-1) - 1, ids.options()));
    }
    check_choice_labels(batch, ids.sizes());
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
      const at::Tensor& logits = outputs.at(kChoiceLogits);
      const at::Tensor labels = batch.at(kChoiceLabels).to(at::kLong).reshape(-1);
      terms.push_back(
          {"mc_loss", 1, nn::cross_entropy_sum(logits.reshape({-1, logits.size(-1)}), labels), "mc_loss"});
    }
    return terms;
  }
  std::vector<nn::LossCount> counts(const Batch& batch) const override {
    std::vector<nn::LossCount> counts = language_.counts(batch);
    if (batch.has(kChoiceLabels)) counts.push_back({"mc_loss", nn::count_labels(batch.at(kChoiceLabels))});
    return counts;
  }
  std::vector<nn::Tie> ties() const override { return language_.ties(); }

 private:
  // One label for each row of mc_logits, whose last dim are the classes.
  void check_choice_labels(const nn::BatchFields& batch, at::IntArrayRef ids) const {
    if (!batch.has(kChoiceLabels)) return;
    const std::vector<int64_t> logits = summary_.shape(ids);
    const int64_t labels = c10::multiply_integers(logits) / logits.back();
    if (batch.integers(kChoiceLabels).numel() != labels) {
      batch.refuse(kChoiceLabels,
                   fmt::format("its shape is {}, but mc_logits will be {}, which wants {} labels",
                               nn::shape_text(batch.batch().at(kChoiceLabels).sizes()),
                               nn::shape_text(logits), labels));
    }
    batch.require_range(kChoiceLabels, logits.back(), true);
  }

  nn::LanguageHead language_;
  Summary summary_;
};

}  // namespace

std::unique_ptr<nn::Head> make_language_head(const HeadSetting& setting) {
  return std::make_unique<nn::LanguageHead>(setting.model, language_options(setting, "loss"));
}

std::unique_ptr<nn::Head> make_double_heads(const HeadSetting& setting) {
  return std::make_unique<DoubleHeads>(setting);
}

}  // namespace weft::gpt2
