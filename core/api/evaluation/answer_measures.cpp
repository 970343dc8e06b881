#include "evaluation/answer_measures.hpp"

#include "base/text.hpp"
#include "evaluation/answer_scores.hpp"
#include "evaluation/gathered_outputs.hpp"
#include "opening/model_state.hpp"

namespace weft {

const data::QuestionSamples* questions_of(const data::Loader& set) {
  return dynamic_cast<const data::QuestionSamples*>(&set.dataset());
}

AnswerMeasures::AnswerMeasures(data::Loader set, int64_t most_tokens)
    : set_(std::move(set)), samples_(questions_of(set_)), most_tokens_(most_tokens) {
  if (samples_ == nullptr)
    fail(WEFT_INVALID_ARGUMENT,
         "measure_answers: {} has no questions with their contexts; open them with data::open_questions",
         set_.dataset().name());
}

void AnswerMeasures::begin() {
  search_.emplace(*samples_, most_tokens_);
  answers_.clear();
}

void AnswerMeasures::add(Job& job, const Batch& batch, const State& outputs) {
  Bindings& bindings = job.model.shared().bindings();
  const State all = gather_outputs(outputs, batch, bindings);
  if (bindings.world().is_master()) search_->add(all.at("start_logits"), all.at("end_logits"));
}

void AnswerMeasures::end(EvaluationValues& values) {
  const size_t count = search_->begun();
  if (count == 0) return;  // rank 0 alone searches
  answers_ = search_->texts();
  AnswerScore sum;
  for (size_t i = 0; i < count; ++i) {
    std::vector<std::string> right;
    for (const data::Answer& answer : questions()[i].answers) right.push_back(answer.text);
    const AnswerScore score = score_answer(answers_[i], right);
    sum.exact_match += score.exact_match;
    sum.f1 += score.f1;
  }
  values["exact_match"] = sum.exact_match / static_cast<double>(count);
  values["f1"] = sum.f1 / static_cast<double>(count);
}

std::shared_ptr<SetMeasures> measure_answers(const data::Loader& set, int64_t most_tokens) {
  return std::make_shared<AnswerMeasures>(set, most_tokens);
}

}  // namespace weft
