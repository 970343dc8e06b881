// Answers to questions as measures of an evaluation set.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/answer_search.hpp"
#include "weft/trainer.hpp"

namespace weft {

// Returns the questions that a loader reads, or null if it reads something else.
const data::QuestionSamples* questions_of(const data::Loader& set);

class AnswerMeasures final : public SetMeasures {
 public:
  // Throws INVALID_ARGUMENT unless `set` reads questions.
  AnswerMeasures(data::Loader set, int64_t most_tokens);
  void begin() override;
  void add(Job& job, const Batch& batch, const State& outputs) override;
  void end(EvaluationValues& values) override;

  const std::vector<data::Question>& questions() const { return samples_->questions(); }
  // Returns the answer to each question that end() found; empty on all ranks but rank 0.
  const std::vector<std::string>& answers() const { return answers_; }

 private:
  const data::Loader set_;  // keeps the samples
  const data::QuestionSamples* samples_;
  const int64_t most_tokens_;
  std::optional<AnswerSearch> search_;
  std::vector<std::string> answers_;
};

}  // namespace weft
