// Files of questions and answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::data {

struct Answer {
  std::string text;
  size_t begin = 0;  // the byte of the context
};

struct Question {
  std::string id, text;
  size_t context = 0;           // its index in QuestionTexts
  std::vector<Answer> answers;  // none: the context has no answer
};

struct Context {
  std::string text;
  int64_t index = 0;  // in its source
};

struct QuestionTexts {
  std::vector<Context> contexts;  // of each source every text once, in the order of the files
  std::vector<Question> questions;
};

// Reads the files of questions that paths stand for, as open_questions() describes them. Throws like it.
// Calls `note` with a line that names the files of a folder that are not read.
QuestionTexts read_questions(const std::vector<std::string>& paths,
                             const std::function<void(const std::string& note)>& note = {});

}  // namespace weft::data
