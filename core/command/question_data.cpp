#include "command/question_data.hpp"

#include <filesystem>

#include "base/text.hpp"
#include "opening/model_questions.hpp"

namespace weft::command {

namespace {

std::vector<std::string> paths_of(const json& data) {
  return data.is_string() ? std::vector{data.get<std::string>()} : data.get<std::vector<std::string>>();
}

// Throws for PATH=WEIGHT.
void refuse_weight(const std::string& path) {
  const size_t equals = path.rfind('=');
  std::error_code ignored;
  if (equals == path.npos || std::filesystem::exists(path, ignored) ||
      !std::filesystem::exists(path.substr(0, equals), ignored))
    return;
  fail(WEFT_INVALID_ARGUMENT,
       "--data {}: a weight is for text, and every question comes once per epoch; leave out \"{}\"", path,
       path.substr(equals));
}

}  // namespace

bool is_question_data(const json& arguments, const Model& model) {
  const std::vector<std::string> paths = paths_of(arguments.at("data"));
  const bool is_other =
      paths.size() == 1 && (paths.front().ends_with(".safetensors") || paths.front().ends_with(".bin"));
  return !is_other && answers_questions(model);
}

std::shared_ptr<data::QuestionSamples> open_question_data(const json& arguments, const Model& model,
                                                          const std::optional<Tokenizer>& tokenizer,
                                                          const ObjectiveOptions& objective,
                                                          const World& world, data::Part part) {
  for (const char* other :
       {"packing", "long_documents", "skip_broken_lines", "token_type", "objective", "word_error_rate"})
    if (given(arguments, other))
      fail(WEFT_INVALID_ARGUMENT,
           "{} is for other data, but {} reads questions and their contexts; leave it out", flag_of(other),
           model.architecture());
  const std::vector<std::string> paths = paths_of(arguments.at("data"));
  for (const std::string& path : paths) refuse_weight(path);
  data::QuestionOptions options;
  options.sequence_length = sequence_length(arguments);
  if (given(arguments, "overlap")) options.overlap = integer(arguments, "overlap", 0);
  options.held_out = real(arguments, "held_out", 0);
  if (given(arguments, "held_out") && !(options.held_out > 0 && options.held_out < 1))
    fail(WEFT_INVALID_ARGUMENT, "--held-out is {}, must be more than 0 and less than 1", options.held_out);
  options.part = part;
  options.seed = objective.seed;
  options.note = [world](const std::string& note) { world.print_on_master(note); };
  return open_questions(model, paths, tokenizer, options, objective, flag_of);
}

void refuse_question_flags(const json& arguments, const Model& model) {
  for (const char* flag : {"overlap", "max_answer_tokens", "predictions"})
    if (given(arguments, flag))
      fail(WEFT_INVALID_ARGUMENT,
           "{} is for files of questions, which classes that end in ForQuestionAnswering read, but "
           "{} reads --data as something else: leave it out",
           flag_of(flag), model.architecture());
}

}  // namespace weft::command
