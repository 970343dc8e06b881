// Questions with the tokenizer of a model folder.
#include "base/text.hpp"
#include "questions/open_questions.hpp"

namespace weft::data {

namespace {

QuestionEncoder encoder_of(const Tokenizer& tokenizer) {
  using Role = Tokenizer::Role;
  QuestionEncoder encoder;
  encoder.encode = [tokenizer](std::string_view text) { return tokenizer.encode(text, false); };
  encoder.encode_with_spans = [spans = TokenSpans(tokenizer)](std::string_view text) {
    return spans.encode(text);
  };
  encoder.pair = joined_pair(tokenizer);
  encoder.vocabulary_size = tokenizer.vocabulary_size();
  encoder.name = tokenizer.name();
  encoder.padding = tokenizer.id_of(Role::kPadding).value_or(tokenizer.id_of(Role::kEnd).value_or(0));
  encoder.pads_left = tokenizer.pads_left();
  encoder.truncates_left = tokenizer.truncates_left();
  return encoder;
}

}  // namespace

std::shared_ptr<QuestionSamples> open_question_samples(const std::vector<std::string>& paths,
                                                       const Tokenizer& tokenizer,
                                                       const QuestionOptions& options) {
  return std::make_shared<QuestionSamples>(read_questions(paths, options.note), encoder_of(tokenizer),
                                           options, fmt::format("{}", fmt::join(paths, ", ")));
}

std::shared_ptr<Dataset> open_questions(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                                        const QuestionOptions& options) {
  return open_question_samples(paths, tokenizer, options);
}

}  // namespace weft::data
