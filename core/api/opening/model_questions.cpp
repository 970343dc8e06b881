#include "opening/model_data.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/text.hpp"
#include "weft/nn/token_model.hpp"

namespace weft {

bool answers_questions(const Model& model) {
  if (nn::find_token_model(model.module()) == nullptr) return false;
  std::optional<Batch> batch = model.module().example(1, 2);
  if (!batch) return false;
  for (const char* label : {"start_positions", "end_positions"}) batch->set(label, at::zeros({1}, at::kLong));
  return !model.module().counts(*batch).empty();
}

std::shared_ptr<data::QuestionSamples> open_questions(
    const Model& model, const std::vector<std::string>& paths, const std::optional<Tokenizer>& tokenizer,
    data::QuestionOptions options, const ObjectiveOptions& objective, const SettingName& called) {
  const nn::TokenModel& tokens = require_vocabulary(model, "data of questions");
  if (!tokenizer)
    fail(WEFT_FAILED_PRECONDITION,
         "{}: questions are text, and there is no tokenizer in the folder of {}; give the folder of one with "
         "{}",
         paths.front(), model.architecture(), called("tokenizer"));
  const std::vector<Vocabulary> vocabularies = tokens.vocabularies();
  options.vocabulary = vocabularies.front().size;
  options.token_types = std::any_of(vocabularies.begin(), vocabularies.end(),
                                    [](const Vocabulary& each) { return each.field == nn::kTokenTypes; });
  options.sequence_length = chosen_length(model, tokens, options.sequence_length, called);
  std::shared_ptr<data::QuestionSamples> samples;
  label_text(model, objective, called, [&](const TextLabels&) {
    samples = data::open_question_samples(paths, *tokenizer, options);
    return OpenedText{samples};
  });
  return samples;
}

}  // namespace weft
