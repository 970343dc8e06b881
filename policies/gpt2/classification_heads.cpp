// The heads that label sequences, tokens or answers, and that of the base model.
#include "base/text.hpp"
#include "head.hpp"

namespace weft::gpt2 {

namespace {

// Where an answer begins and ends: two classifications over all positions, padding too.
class AnswerHead final : public nn::Head {
 public:
  explicit AnswerHead(const HeadSetting& setting) {
    qa_outputs_ = setting.model.register_module(
        "qa_outputs", std::make_shared<nn::Linear>(setting.config.n_embd, 2, true, setting.dtype));
  }

  std::vector<std::string> fields() const override { return {kSides[0].label, kSides[1].label}; }
  void prepare(const nn::BatchFields& batch, const at::Tensor& ids, State& state) const override {
    for (int side : {0, 1}) {
      const char *here = kSides[side].label, *other = kSides[1 - side].label;
      if (!batch.has(here)) continue;
      batch.integers(here);
      batch.require_shape(here, {{ids.size(0)}, {ids.size(0), 1}});
      if (!batch.has(other)) batch.refuse(here, fmt::format("it needs \"{}\" beside it", other));
    }
  }
  std::vector<torch::nn::Module*> modules() const override { return {qa_outputs_.get()}; }
  void forward(const Finish& finish, State& state) const override {
    const at::Tensor logits = (*qa_outputs_)(finish(nn::take(state, nn::kHidden)));
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
    const int64_t positions = batch.at(nn::kInputIds).size(-1);
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

std::unique_ptr<nn::Head> make_base_head(const HeadSetting&) {
  return nn::make_base_head();
}

std::unique_ptr<nn::Head> make_sequence_classifier(const HeadSetting& setting) {
  const Gpt2Config& config = setting.config;
  return nn::make_sequence_classifier(setting.model, config.n_embd, config.labels, config.pad_token_id,
                                      setting.dtype);
}

std::unique_ptr<nn::Head> make_token_classifier(const HeadSetting& setting) {
  const Gpt2Config& config = setting.config;
  return nn::make_token_classifier(setting.model, config.n_embd, config.labels, config.classifier_dropout,
                                   setting.dtype);
}

std::unique_ptr<nn::Head> make_answer_head(const HeadSetting& setting) {
  return std::make_unique<AnswerHead>(setting);
}

}  // namespace weft::gpt2
