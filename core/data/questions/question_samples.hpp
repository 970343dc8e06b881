// Questions with windows of their contexts, as samples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "questions/question_encoder.hpp"
#include "questions/question_files.hpp"
#include "weft/data/questions.hpp"

namespace weft::data {

class QuestionSamples final : public Dataset {
 public:
  // Throws as open_questions() does.
  QuestionSamples(QuestionTexts texts, QuestionEncoder encoder, const QuestionOptions& options,
                  std::string name);

  int64_t size() const override { return static_cast<int64_t>(windows_.size()); }
  std::string name() const override { return name_; }
  Batch get(const std::vector<int64_t>& indices) const override;

  // Returns the questions of the part that is read. The windows of each follow each other in the samples.
  const std::vector<Question>& questions() const { return questions_; }
  // Returns whether any question of the files, of whatever part, has no answer.
  bool has_impossible() const { return has_impossible_; }

  // A sample: a question and some tokens of its context.
  struct Window {
    int64_t question = 0;
    int64_t begin = 0, count = 0;  // of the tokens of the context
    int64_t position = 0;          // in the sample, of the first of these tokens
    int64_t first = 0;             // the position of the first token of the sample
  };
  Window window(int64_t sample) const;
  // Returns the text of a question's context from one of its tokens to another.
  std::string text_of(int64_t question, int64_t first_token, int64_t last_token) const;

 private:
  struct EncodedContext {
    std::string text;
    std::vector<uint32_t> ids;
    std::vector<std::pair<uint32_t, uint32_t>> spans;
  };
  // The tokens of a question, and of its first answer in the context.
  struct EncodedQuestion {
    std::vector<uint32_t> ids;
    std::optional<std::pair<int64_t, int64_t>> answer;
  };
  struct Place {
    int64_t question = 0, begin = 0, end = 0;  // of the tokens of the context
  };

  void choose_questions(QuestionTexts& texts);
  void encode_texts();
  void find_answer(size_t question);
  void add_windows(int64_t question);
  void tell_what_was_cut() const;
  // Returns how many tokens of the context a sample of the question holds.
  int64_t room(int64_t question) const;
  const EncodedContext& context_of(int64_t question) const;
  void fill(int64_t sample, int64_t* ids, int64_t* mask, int64_t* types) const;
  // Returns the positions of the answer, or nothing if the window does not have it.
  std::optional<std::pair<int64_t, int64_t>> label_of(const Window& window) const;

  const QuestionEncoder encoder_;
  const QuestionOptions options_;
  const std::string name_;
  bool has_impossible_ = false;
  std::vector<Question> questions_;  // whose contexts are those below
  std::vector<EncodedContext> contexts_;
  std::vector<EncodedQuestion> encoded_;
  std::vector<Place> windows_;
  int64_t cut_questions_ = 0;
};

}  // namespace weft::data
