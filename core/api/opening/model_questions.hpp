// Opens questions for a model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/setting_name.hpp"
#include "questions/open_questions.hpp"
#include "weft/model.hpp"
#include "weft/objective.hpp"

namespace weft {

// Returns whether the model reads tokens alone and predicts where an answer begins and ends.
bool answers_questions(const Model& model);

// Opens files of questions for a model that answers them. Of `options` the vocabulary and the token types are
// set here, and a sequence length of 0 is the longest that the model takes. Throws like
// data::open_questions(), INVALID_ARGUMENT for an objective or settings of one, and FAILED_PRECONDITION
// without a tokenizer.
std::shared_ptr<data::QuestionSamples> open_questions(
    const Model& model, const std::vector<std::string>& paths, const std::optional<Tokenizer>& tokenizer,
    data::QuestionOptions options, const ObjectiveOptions& objective, const SettingName& called);

}  // namespace weft
