// --data of questions, for models that answer them.
#pragma once

#include <memory>
#include <optional>

#include "command/arguments.hpp"
#include "questions/question_samples.hpp"
#include "weft/objective.hpp"

namespace weft::command {

// Returns whether --data is read as files of questions: the model answers them, and it is neither a file of
// tensors nor of tokens.
bool is_question_data(const json& arguments, const Model& model);

// Opens them with --sequence-length, --overlap and --held-out. Prints on the master what was cut. Throws
// INVALID_ARGUMENT for flags of other data.
std::shared_ptr<data::QuestionSamples> open_question_data(const json& arguments, const Model& model,
                                                          const std::optional<Tokenizer>& tokenizer,
                                                          const ObjectiveOptions& objective,
                                                          const World& world, data::Part part);

// Throws INVALID_ARGUMENT for flags of questions, because --data is something else.
void refuse_question_flags(const json& arguments, const Model& model);

}  // namespace weft::command
