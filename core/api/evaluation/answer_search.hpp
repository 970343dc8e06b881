// The answers of a model to questions, from its logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "questions/question_samples.hpp"

namespace weft {

// Searches the windows of each question for the answer: the tokens of the context with the largest sum of the
// logits of their begin and their end. If the data has questions without an answer, a question has none where
// the first token of a window, in place of begin and end, has more, in the window where it has least.
class AnswerSearch {
 public:
  // Answers have at most `most_tokens` tokens.
  AnswerSearch(const data::QuestionSamples& samples, int64_t most_tokens);

  // Adds the logits (samples, T) of the next samples.
  void add(const at::Tensor& starts, const at::Tensor& ends);
  // Returns how many questions have windows among them.
  size_t begun() const;
  // Returns the text of the answer to each question, empty if it has none.
  std::vector<std::string> texts() const;

 private:
  struct Found {
    int64_t first = -1, last = -1;  // tokens of the context; -1: none yet
    double logits = 0;
    double none = 0;  // the logits of the first token
    bool is_new = true;
  };
  void search(const data::QuestionSamples::Window& window, const double* starts, const double* ends);

  const data::QuestionSamples& samples_;
  const int64_t most_tokens_;
  int64_t next_ = 0;          // sample
  std::vector<Found> found_;  // of each question
};

}  // namespace weft
