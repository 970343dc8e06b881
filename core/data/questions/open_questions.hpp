// Opens questions with the tokenizer of a model folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "questions/question_samples.hpp"

namespace weft::data {

// Does what open_questions() of weft/data/questions.hpp does. The result also has the texts of the answers.
std::shared_ptr<QuestionSamples> open_question_samples(const std::vector<std::string>& paths,
                                                       const Tokenizer& tokenizer,
                                                       const QuestionOptions& options);

}  // namespace weft::data
