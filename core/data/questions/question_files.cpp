#include "questions/question_files.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "loader/json_text.hpp"
#include "loader/mapped_file.hpp"
#include "text/characters.hpp"
#include "text/json_records.hpp"
#include "text/text_files.hpp"

namespace weft::data {

using nlohmann::json;

namespace {

constexpr const char* kForm =
    R"(must be SQuAD's {"data": [{"paragraphs": [...]}]}, or have in each line, or each element of one array, )"
    R"({"id": ..., "context": ..., "question": ..., "answers": {"text": [...], "answer_start": [...]}})";

// Runs `action`. Adds to its errors where they are.
template <class Action>
void at_place(const std::string& place, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    throw Error(error.status(), place + ": " + error.what());
  }
}

void require_list(const json& value, const char* key) {
  if (!value.is_array()) fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be a list", key, json_kind(value));
}

void require_object(const json& value, const char* what) {
  if (!value.is_object()) fail(WEFT_INVALID_ARGUMENT, "{} is {}, {}", what, json_kind(value), kForm);
}

Answer answer_of(const json& text, const json& start, const std::string& context) {
  Answer answer{text_in(text, "text")};
  if (!start.is_number_integer() || (!start.is_number_unsigned() && start.get<int64_t>() < 0))
    fail(WEFT_INVALID_ARGUMENT,
         "\"answer_start\" is {}, must be the index of a character of the context, from 0",
         start.is_number() ? start.dump() : json_kind(start));
  if (trim(answer.text).empty())
    fail(WEFT_INVALID_ARGUMENT, "an answer has no text; a question without an answer has an empty list");
  answer.begin = byte_of_character(context, start.get<uint64_t>());
  if (context.compare(answer.begin, answer.text.size(), answer.text) == 0) return answer;
  // Cut in front of a character.
  const size_t end = answer.begin + byte_of_character(std::string_view(context).substr(answer.begin), 30);
  fail(WEFT_INVALID_ARGUMENT,
       "the answer \"{}\" is not at its \"answer_start\" {}, where the context {}; \"answer_start\" counts "
       "characters (Unicode code points) from 0",
       printable(answer.text, 60), start.dump(),
       answer.begin == context.size()
           ? "has ended"
           : fmt::format("has \"{}\"", printable(context.substr(answer.begin, end - answer.begin), 150)));
}

std::vector<Answer> answers_of(const json& answers, const std::string& context) {
  std::vector<Answer> read;
  if (answers.is_array()) {
    for (const json& answer : answers) {
      require_object(answer, "an answer");
      read.push_back(answer_of(member_at(answer, "text"), member_at(answer, "answer_start"), context));
    }
    return read;
  }
  require_object(answers, "\"answers\"");
  const json &texts = member_at(answers, "text"), &starts = member_at(answers, "answer_start");
  require_list(texts, "text");
  require_list(starts, "answer_start");
  if (texts.size() != starts.size())
    fail(WEFT_INVALID_ARGUMENT, "\"text\" has {} answers, but \"answer_start\" {}; give each answer both",
         texts.size(), starts.size());
  for (size_t i = 0; i < texts.size(); ++i) read.push_back(answer_of(texts[i], starts[i], context));
  return read;
}

std::string id_of(const json& id) {
  if (id.is_number_integer()) return id.dump();
  return text_in(id, "id");
}

class Reader {
 public:
  void read_source(const std::string& path, const std::function<void(const std::string& note)>& note);
  QuestionTexts take() { return std::move(texts_); }

 private:
  void read_file(const std::string& path, const std::string& shown);
  void read_records(std::string_view content, const std::string& shown);
  void read_document(const json& root);
  void read_article(const json& article, size_t number);
  // Reads a question with its context.
  void read_record(const json& record);
  void add_question(const json& record, size_t context);
  size_t add_context(const std::string& text);

  QuestionTexts texts_;
  std::unordered_map<std::string, size_t> contexts_;  // of the source, by their text
  std::unordered_set<std::string> ids_;
};

void Reader::read_source(const std::string& path, const std::function<void(const std::string& note)>& note) {
  TextFiles files = find_text_files(path);
  contexts_.clear();
  bool has_json = false;
  for (size_t i = 0; i < files.files.size(); ++i) {
    const bool is_json = has_json_lines(files.files[i]);
    has_json = has_json || is_json;
    if (is_json)
      read_file(files.path(i), files.shown(i));
    else if (files.pattern.empty())  // a folder may have other files
      files.left_out.push_back(files.files[i]);
    else
      fail(WEFT_INVALID_ARGUMENT,
           "{}: the model answers questions, which come in files that end in {}: they {}", files.shown(i),
           json_extensions(), kForm);
  }
  if (!has_json)
    fail(WEFT_NOT_FOUND, "{}: the model answers questions, but no file of the folder ends in {} (--data)",
         path, json_extensions());
  if (note && !files.left_out.empty()) note(line_of_left_out(files, false));
}

void Reader::read_file(const std::string& path, const std::string& shown) {
  const MappedFile file(path);
  const std::string_view content = trim(file.bytes());
  const size_t line_end = content.find('\n');
  const bool may_be_object = extension_of(path) == ".json" &&
                             (line_end == content.npos || !json::accept(content.substr(0, line_end)));
  if (may_be_object && !is_json_array(file.bytes(), shown))
    at_place(shown, [&] { read_document(parse_json(content, "the file")); });
  else
    read_records(file.bytes(), shown);
}

void Reader::read_records(std::string_view content, const std::string& shown) {
  for (const JsonStretch& stretch : json_stretches(content, shown)) {
    JsonRecords records(stretch);
    while (const std::optional<JsonRecord> record = records.next())
      at_place(place_of(*record, shown, content), [&] {
        const bool is_line = record->element == 0;
        const json object = parse_json(record->text, is_line ? "the line" : "the element");
        require_object(object, is_line ? "the line" : "the element");
        if (!is_line && object.contains("paragraphs"))
          read_article(object, static_cast<size_t>(record->element));
        else
          read_record(object);
      });
  }
}

void Reader::read_document(const json& root) {
  require_object(root, "the file");
  if (root.contains("question")) return read_record(root);
  const auto data = root.find("data");
  if (data == root.end()) fail(WEFT_INVALID_ARGUMENT, "it has no \"data\"; the file {}", kForm);
  require_list(*data, "data");
  size_t number = 0;
  for (const json& record : *data) {
    ++number;
    require_object(record, "an element of \"data\"");
    if (record.contains("paragraphs"))
      read_article(record, number);
    else
      at_place(fmt::format("element {}", number), [&] { read_record(record); });
  }
}

void Reader::read_article(const json& article, size_t number) {
  const json& paragraphs = article.at("paragraphs");
  require_list(paragraphs, "paragraphs");
  const auto title = article.find("title");
  const std::string name = title != article.end() && title->is_string()
                               ? fmt::format("\"{}\"", printable(title->get<std::string>(), 60))
                               : fmt::format("article {}", number);
  size_t paragraph_number = 0;
  for (const json& paragraph : paragraphs) {
    at_place(fmt::format("paragraph {} of {}", ++paragraph_number, name), [&] {
      require_object(paragraph, "it");
      const json& questions = member_at(paragraph, "qas");
      require_list(questions, "qas");
      const size_t context = add_context(text_at(paragraph, "context"));
      for (const json& question : questions) {
        require_object(question, "an element of \"qas\"");
        add_question(question, context);
      }
    });
  }
}

void Reader::read_record(const json& record) {
  member_at(record, "id");
  add_question(record, add_context(text_at(record, "context")));
}

void Reader::add_question(const json& record, size_t context) {
  Question question{.id = id_of(member_at(record, "id")), .text = {}, .context = context, .answers = {}};
  at_place(fmt::format("question \"{}\"", printable(question.id, 60)), [&] {
    if (!ids_.insert(question.id).second)
      fail(WEFT_INVALID_ARGUMENT, "another question has the same \"id\"; give each its own");
    question.text = trim(text_at(record, "question"));
    if (question.text.empty()) fail(WEFT_INVALID_ARGUMENT, "\"question\" is empty");
    question.answers = answers_of(member_at(record, "answers"), texts_.contexts[context].text);
    const auto impossible = record.find("is_impossible");
    if (impossible != record.end() && !impossible->is_boolean())
      fail(WEFT_INVALID_ARGUMENT, "\"is_impossible\" is {}, must be true or false", json_kind(*impossible));
    if (impossible != record.end() && impossible->get<bool>() == !question.answers.empty())
      fail(WEFT_INVALID_ARGUMENT, "\"is_impossible\" is {}, but \"answers\" has {}; correct one of them",
           impossible->dump(), question.answers.empty() ? "none" : "some");
    texts_.questions.push_back(std::move(question));
  });
}

size_t Reader::add_context(const std::string& text) {
  if (trim(text).empty()) fail(WEFT_INVALID_ARGUMENT, "\"context\" is empty");
  const auto [known, is_new] = contexts_.emplace(text, texts_.contexts.size());
  if (is_new) texts_.contexts.push_back({text, static_cast<int64_t>(contexts_.size()) - 1});
  return known->second;
}

}  // namespace

QuestionTexts read_questions(const std::vector<std::string>& paths,
                             const std::function<void(const std::string& note)>& note) {
  Reader reader;
  for (const std::string& path : paths) reader.read_source(path, note);
  QuestionTexts texts = reader.take();
  if (texts.questions.empty())
    fail(WEFT_INVALID_ARGUMENT, "{}: no questions; the files have none (--data)", fmt::join(paths, ", "));
  return texts;
}

}  // namespace weft::data
