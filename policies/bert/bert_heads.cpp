// Shapes: B samples, N rows, T positions, E = hidden_size, V tokens.
#include "bert_heads.hpp"

#include "bert_layers.hpp"
#include "weft/error.hpp"
#include "weft/nn/classifiers.hpp"
#include "weft/nn/config_values.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/parameter_names.hpp"
#include "weft/nn/pooled_heads.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::bert {

namespace {

// As BERT's own code calls them (google-research/bert, run_pretraining.py).
constexpr const char* kMaskedAccuracy = "masked_lm_accuracy";
constexpr const char* kSentenceAccuracy = "next_sentence_accuracy";

torch::nn::Module& make_cls(const HeadSetting& setting) {
  return nn::submodule(setting.model, "cls");
}

std::shared_ptr<nn::Pooler> make_pooler(const HeadSetting& setting) {
  const int64_t channels = setting.config.hidden_size;
  return setting.base.register_module(
      "pooler", std::make_shared<nn::Pooler>(channels, channels, "tanh", setting.dtype));
}

// Predicts tokens through a transform and a decoder, which shares the weight of the token embedding and has
// a bias of its own.
class TokenPrediction final : public nn::LanguageHead {
 public:
  struct Loss {
    const char* term = "loss";
    const char* output = "logits";
    bool shifts = false;
    const char* accuracy = kMaskedAccuracy;
  };
  // Registers "predictions" in `cls`.
  TokenPrediction(torch::nn::Module& cls, const HeadSetting& setting, const Loss& loss)
      : TokenPrediction(cls.register_module("predictions", std::make_shared<nn::ParameterNames>()), setting,
                        loss) {}

  std::vector<torch::nn::Module*> modules() const override { return {predictions_.get()}; }
  // Checkpoints have the bias of the decoder under the name of its parent.
  std::vector<nn::Tie> ties() const override {
    std::vector<nn::Tie> ties = LanguageHead::ties();
    ties.push_back({"cls.predictions.decoder.bias", "cls.predictions.bias"});
    return ties;
  }

 protected:
  at::Tensor transform(const at::Tensor& x) const override { return (*norm_)((*activation_)((*dense_)(x))); }

 private:
  TokenPrediction(std::shared_ptr<nn::ParameterNames> predictions, const HeadSetting& setting,
                  const Loss& loss)
      : LanguageHead(*predictions, {.channels = setting.config.hidden_size,
                                    .vocabulary = setting.config.vocab_size,
                                    .dtype = setting.dtype,
                                    .module = "decoder",
                                    .prefix = "cls.predictions.",
                                    .bias = true,
                                    .tied = &setting.words,
                                    .tied_name = "bert.embeddings.word_embeddings.weight",
                                    .term = loss.term,
                                    .output = loss.output,
                                    .shifts = loss.shifts,
                                    .accuracy = loss.accuracy}),
        predictions_(std::move(predictions)) {
    const BertConfig& config = setting.config;
    // With a decoder of its own weight, transformers 5 has a bias that nothing reads.
    if (!config.tie_word_embeddings)
      throw Error(WEFT_UNIMPLEMENTED,
                  setting.file.origin() +
                      ": \"tie_word_embeddings\" is false (a decoder with a weight of its own), which Weft's "
                      "BERT does not have; set it to true");
    predictions_->register_parameter("bias", layer().bias);
    torch::nn::Module& layers = nn::submodule(*predictions_, "transform");
    dense_ = layers.register_module(
        "dense", std::make_shared<nn::Linear>(config.hidden_size, config.hidden_size, true, setting.dtype));
    activation_ =
        layers.register_module("transform_act_fn", std::make_shared<nn::Activation>(config.hidden_act));
    norm_ = layers.register_module("LayerNorm", make_norm(config, setting.dtype));
  }
  const std::shared_ptr<nn::ParameterNames> predictions_;
  std::shared_ptr<nn::Linear> dense_;
  std::shared_ptr<nn::Activation> activation_;
  std::shared_ptr<nn::LayerNorm> norm_;
};

// Predicts whether the second sentence of a sequence follows the first one.
class SentencePrediction {
 public:
  // Registers "seq_relationship" in `cls`.
  SentencePrediction(torch::nn::Module& cls, const HeadSetting& setting, const char* labels, const char* term)
      : labels_(labels), term_(term), pooler_(make_pooler(setting)) {
    seq_relationship_ = cls.register_module(
        "seq_relationship", std::make_shared<nn::Linear>(setting.config.hidden_size, 2, true, setting.dtype));
  }
  std::vector<torch::nn::Module*> modules() const { return {pooler_.get(), seq_relationship_.get()}; }
  void check(const nn::BatchFields& batch, at::IntArrayRef positions) const {
    if (!batch.has(labels_)) return;
    batch.require_shape(labels_, {{positions[0]}, {positions[0], 1}});
    batch.require_range(labels_, 2, true);
  }
  // hidden: (N, T, E) -> (N, 2)
  at::Tensor logits(const at::Tensor& hidden) const { return (*seq_relationship_)((*pooler_)(hidden)); }
  std::vector<nn::LossTerm> loss(const at::Tensor& logits, const Batch& batch) const {
    if (!batch.has(labels_)) return {};
    return {{term_, 1, nn::RowLabels{batch.at(labels_)}.cross_entropy(logits)}};
  }
  std::vector<nn::LossCount> counts(const Batch& batch) const {
    if (!batch.has(labels_)) return {};
    return {{term_, nn::RowLabels{batch.at(labels_)}.count()}};
  }
  std::vector<Metric> metrics(const at::Tensor& logits, const Batch& batch) const {
    if (!batch.has(labels_)) return {};
    return {nn::RowLabels{batch.at(labels_)}.accuracy(logits)};
  }

 private:
  const char* labels_;
  const char* term_;
  std::shared_ptr<nn::Pooler> pooler_;
  std::shared_ptr<nn::Linear> seq_relationship_;
};

class NextSentence final : public nn::Head {
 public:
  explicit NextSentence(const HeadSetting& setting)
      : sentences_(make_cls(setting), setting, nn::kLabels, "loss") {}

  std::vector<std::string> fields() const override { return {nn::kLabels}; }
  void prepare(const nn::BatchFields& batch, at::IntArrayRef positions, State&) const override {
    sentences_.check(batch, positions);
  }
  std::vector<torch::nn::Module*> modules() const override { return sentences_.modules(); }
  void forward(const Finish& finish, State& state) const override {
    state.set("logits", sentences_.logits(finish(nn::take(state, nn::kHidden))));
  }
  std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const override {
    return sentences_.loss(outputs.at("logits"), batch);
  }
  std::vector<nn::LossCount> counts(const Batch& batch, at::IntArrayRef) const override {
    return sentences_.counts(batch);
  }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    return sentences_.metrics(outputs.at("logits"), batch);
  }
  std::vector<nn::Objective> objectives() const override {
    return {{.kind = nn::Objective::Kind::kNextSentence, .sentence_labels = nn::kLabels}};
  }

 private:
  SentencePrediction sentences_;
};

// Predicts masked tokens and the next sentence. The loss is the sum of both.
class PreTraining final : public nn::Head {
 public:
  explicit PreTraining(const HeadSetting& setting) : PreTraining(make_cls(setting), setting) {}

  std::vector<std::string> fields() const override { return {nn::kLabels, kSentenceLabels}; }
  void prepare(const nn::BatchFields& batch, at::IntArrayRef positions, State& state) const override {
    for (const auto& [here, other] :
         {std::pair(nn::kLabels, kSentenceLabels), std::pair(kSentenceLabels, nn::kLabels)})
      if (batch.has(here) && !batch.has(other))
        batch.refuse(here, std::string("it needs \"") + other + "\" beside it");
    tokens_.prepare(batch, positions, state);
    sentences_.check(batch, positions);
  }
  std::vector<torch::nn::Module*> modules() const override {
    std::vector<torch::nn::Module*> modules = tokens_.modules();
    for (torch::nn::Module* module : sentences_.modules()) modules.push_back(module);
    return modules;
  }
  void forward(const Finish& finish, State& state) const override {
    const at::Tensor hidden = state.at(nn::kHidden);
    tokens_.forward(finish, state);
    state.set(kSentenceLogits, sentences_.logits(finish(hidden)));
  }
  std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const override {
    std::vector<nn::LossTerm> terms = tokens_.loss(outputs, batch);
    for (nn::LossTerm& term : sentences_.loss(outputs.at(kSentenceLogits), batch))
      terms.push_back(std::move(term));
    return terms;
  }
  std::vector<nn::LossCount> counts(const Batch& batch, at::IntArrayRef positions) const override {
    std::vector<nn::LossCount> counts = tokens_.counts(batch, positions);
    for (nn::LossCount& count : sentences_.counts(batch)) counts.push_back(std::move(count));
    return counts;
  }
  std::vector<Metric> metrics(const State& outputs, const Batch& batch) const override {
    std::vector<Metric> metrics = tokens_.metrics(outputs, batch);
    for (Metric& metric : sentences_.metrics(outputs.at(kSentenceLogits), batch)) {
      metric.name = kSentenceAccuracy;
      metrics.push_back(std::move(metric));
    }
    return metrics;
  }
  std::vector<nn::Objective> objectives() const override {
    return {{.kind = nn::Objective::Kind::kMaskedLmNextSentence, .sentence_labels = kSentenceLabels},
            {.kind = nn::Objective::Kind::kMaskedLm}};
  }
  std::string perplexity_term() const override { return tokens_.perplexity_term(); }
  std::vector<nn::Tie> ties() const override { return tokens_.ties(); }

 private:
  static constexpr const char* kSentenceLabels = "next_sentence_label";
  static constexpr const char* kSentenceLogits = "seq_relationship_logits";

  PreTraining(torch::nn::Module& cls, const HeadSetting& setting)
      : tokens_(cls, setting, {.term = "masked_lm_loss", .output = "prediction_logits"}),
        sentences_(cls, setting, kSentenceLabels, "next_sentence_loss") {}

  TokenPrediction tokens_;
  SentencePrediction sentences_;
};

}  // namespace

std::unique_ptr<nn::Head> base_head(const HeadSetting& setting) {
  return nn::make_pooled_base_head(make_pooler(setting));
}

std::unique_ptr<nn::Head> pre_training_head(const HeadSetting& setting) {
  return std::make_unique<PreTraining>(setting);
}

std::unique_ptr<nn::Head> next_token_head(const HeadSetting& setting) {
  return std::make_unique<TokenPrediction>(make_cls(setting), setting,
                                           TokenPrediction::Loss{.shifts = true, .accuracy = ""});
}

std::unique_ptr<nn::Head> masked_token_head(const HeadSetting& setting) {
  return std::make_unique<TokenPrediction>(make_cls(setting), setting, TokenPrediction::Loss{});
}

std::unique_ptr<nn::Head> sequence_classifier(const HeadSetting& setting) {
  const BertConfig& config = setting.config;
  return nn::make_pooled_classifier(setting.model, make_pooler(setting), config.hidden_size, config.labels,
                                    config.classifier_dropout, setting.dtype);
}

std::unique_ptr<nn::Head> token_classifier(const HeadSetting& setting) {
  const BertConfig& config = setting.config;
  return nn::make_token_classifier(setting.model, config.hidden_size, config.labels,
                                   config.classifier_dropout, setting.dtype);
}

std::unique_ptr<nn::Head> next_sentence_head(const HeadSetting& setting) {
  return std::make_unique<NextSentence>(setting);
}

std::unique_ptr<nn::Head> choice_classifier(const HeadSetting& setting) {
  const BertConfig& config = setting.config;
  return nn::make_choice_classifier(setting.model, make_pooler(setting), config.hidden_size,
                                    config.classifier_dropout, setting.dtype);
}

std::unique_ptr<nn::Head> answer_head(const HeadSetting& setting) {
  const int64_t labels = setting.config.labels.count;
  if (labels != 2)
    nn::refuse(setting.file, "there are " + std::to_string(labels) +
                                 " labels (\"id2label\" or \"num_labels\"), but BertForQuestionAnswering "
                                 "has 2, the begin and the end of an answer");
  return nn::make_answer_head(setting.model, setting.config.hidden_size, setting.dtype);
}

}  // namespace weft::bert
