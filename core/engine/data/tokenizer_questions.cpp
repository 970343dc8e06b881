// Questions with the tokenizer of a model folder.
#include <algorithm>

#include "base/text.hpp"
#include "data/open_questions.hpp"

namespace weft::data {

namespace {

using Ids = QuestionEncoder::Ids;

// Sets what the tokenizer adds to a pair: what stands around the ids of two letters.
void set_added_ids(const Tokenizer& tokenizer, QuestionEncoder& encoder) {
  const Ids first = tokenizer.encode("a", false), second = tokenizer.encode("b", false);
  Ids types;
  const Ids pair = tokenizer.encode_pair("a", "b", &types);
  const auto question = std::search(pair.begin(), pair.end(), first.begin(), first.end());
  const auto question_end = question == pair.end() ? question : question + std::ssize(first);
  const auto context = std::search(question_end, pair.end(), second.begin(), second.end());
  if (first.empty() || second.empty() || context == pair.end() || types.size() != pair.size())
    fail(WEFT_UNIMPLEMENTED,
         "{}: the ids of a pair of texts do not contain those of both, one after the other; Weft cannot join "
         "questions and contexts with it",
         tokenizer.name());
  const auto added = [&](auto begin, auto end) {
    const auto type = [&](auto at) { return types.begin() + (at - pair.begin()); };
    return QuestionEncoder::Added{Ids(begin, end), Ids(type(begin), type(end))};
  };
  encoder.before = added(pair.begin(), question);
  encoder.between = added(question_end, context);
  encoder.after = added(context + std::ssize(second), pair.end());
  encoder.question_type = types[static_cast<size_t>(question - pair.begin())];
  encoder.context_type = types[static_cast<size_t>(context - pair.begin())];
}

QuestionEncoder encoder_of(const Tokenizer& tokenizer) {
  using Role = Tokenizer::Role;
  QuestionEncoder encoder;
  encoder.encode = [tokenizer](std::string_view text) { return tokenizer.encode(text, false); };
  encoder.encode_with_spans = [spans = TokenSpans(tokenizer)](std::string_view text) {
    return spans.encode(text);
  };
  set_added_ids(tokenizer, encoder);
  encoder.vocabulary_size = tokenizer.vocabulary_size();
  encoder.name = tokenizer.name();
  encoder.padding = tokenizer.id_of(Role::kPadding).value_or(tokenizer.id_of(Role::kEnd).value_or(0));
  encoder.pads_left = tokenizer.pads_left();
  return encoder;
}

}  // namespace

std::shared_ptr<QuestionSamples> open_question_samples(const std::vector<std::string>& paths,
                                                       const Tokenizer& tokenizer,
                                                       const QuestionOptions& options) {
  return std::make_shared<QuestionSamples>(read_questions(paths), encoder_of(tokenizer), options,
                                           fmt::format("{}", fmt::join(paths, ", ")));
}

std::shared_ptr<Dataset> open_questions(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                                        const QuestionOptions& options) {
  return open_question_samples(paths, tokenizer, options);
}

}  // namespace weft::data
