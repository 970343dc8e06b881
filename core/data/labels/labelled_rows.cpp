#include "labels/labelled_rows.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.hpp"
#include "labels/span_tags.hpp"
#include "loader/json_text.hpp"
#include "loader/mapped_file.hpp"
#include "text/records.hpp"

namespace weft::data {

using nlohmann::json;
using Kind = RowLabel::Kind;

namespace {

Kind kind_of_number(const json& value) {
  const bool fits = !value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX};
  return value.is_number_integer() && fits ? Kind::kInteger : Kind::kReal;
}

// Returns the kind of a value of a table: a number is written as in JSON.
Kind kind_of_field(std::string_view text) {
  const bool may_be = !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
  if (!may_be || trim(text).size() != text.size()) return Kind::kText;
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_number() ? kind_of_number(value) : Kind::kText;
}

const char* name_of(Kind kind) {
  return kind == Kind::kText ? "a text" : kind == Kind::kInteger ? "an integer" : "a number";
}

// Reads one value of a label. Throws for what is neither a text nor a number.
Kind read_value(const json& value, const std::string& column, std::vector<std::string>& values) {
  if (value.is_string()) {
    values.push_back(value.get<std::string>());
    return Kind::kText;
  }
  if (value.is_boolean()) {
    values.emplace_back(value.get<bool>() ? "1" : "0");
    return Kind::kInteger;
  }
  if (!value.is_number())
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be a text, a number, or a list of texts or integers",
         column, json_kind(value));
  values.push_back(value.dump());
  return kind_of_number(value);
}

RowLabel label_of(const json& value, bool of_table, const std::string& column) {
  RowLabel label;
  if (of_table) {
    label.values.push_back(value.get<std::string>());
    if (label.values.front().empty()) fail(WEFT_INVALID_ARGUMENT, "\"{}\" is empty: it has no label", column);
    label.kind = kind_of_field(label.values.front());
    return label;
  }
  if (!value.is_array()) {
    if (value.is_null()) fail(WEFT_INVALID_ARGUMENT, "\"{}\" is null: it has no label", column);
    label.kind = read_value(value, column, label.values);
    return label;
  }
  label.is_list = true;
  for (const json& each : value) {
    const Kind kind = read_value(each, column, label.values);
    if (kind == Kind::kReal)
      fail(WEFT_INVALID_ARGUMENT,
           "\"{}\" is a list with {}; a list has the names or the integers of all labels that the row has",
           column, each.dump());
    if (label.kind != Kind::kNone && kind != label.kind)
      fail(WEFT_INVALID_ARGUMENT, "\"{}\" is a list of texts and integers, must be of one kind", column);
    label.kind = kind;
    const auto last = label.values.end() - 1;  // each label counts once
    if (std::find(label.values.begin(), last, *last) != last) label.values.pop_back();
  }
  return label;
}

// Reads the tags of words. Throws unless there is one for each of them.
RowLabel tags_of(const json& value, const std::string& column, size_t words) {
  if (!value.is_array())
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be a list with a tag for each word", column,
         json_kind(value));
  if (value.size() != words)
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" has {} tags, but there are {} words", column, value.size(), words);
  RowLabel label;
  for (const json& each : value) {
    const Kind kind = read_value(each, column, label.values);
    if (kind == Kind::kReal || (label.kind != Kind::kNone && kind != label.kind))
      fail(WEFT_INVALID_ARGUMENT, "\"{}\" has the tag {}, must have texts or integers alone", column,
           printable(each.dump(), 60));
    label.kind = kind;
  }
  return label;
}

// Returns a member of a record. Throws, with the names that there are, if it is missing.
const json& column_of(const json& record, const std::string& column, const char* option) {
  if (const auto found = record.find(column); found != record.end()) return *found;
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) names.push_back(name);
  fail(WEFT_INVALID_ARGUMENT, "it has no \"{}\"{}; it has: {} ({})", printable(column, 60),
       did_you_mean(column, names), printable(fmt::format("{}", fmt::join(names, ", "))), option);
}

class Reader {
 public:
  explicit Reader(const RowReading& reading) : reading_(reading) {}
  void read_source(const std::string& path);
  LabelledRows take();

 private:
  void read_file(const TextFiles& files, size_t file);
  void add(const json& record, const Records& records, size_t file);
  void add_words(const json& record, const Records& records, size_t file);
  void add_row(LabelledRow row, const Records& records, size_t file);
  // Throws if the label is of another kind than those before.
  void check_kind(const RowLabel& label, bool of_table) const;

  const RowReading& reading_;
  LabelledRows read_;
  std::vector<bool> of_table_;  // of each row
  int64_t broken_ = 0;
  std::string first_broken_;
  std::optional<RowLabel> first_;  // of JSON, that is not an empty list
};

void Reader::read_source(const std::string& path) {
  TextFiles files = find_text_files(path);
  const size_t before = read_.rows.size();
  broken_ = 0;
  bool has_any = false;
  std::vector<size_t> with_records;
  for (size_t i = 0; i < files.files.size(); ++i) {
    if (has_records(files.files[i]))
      with_records.push_back(i);
    else if (files.pattern.empty())  // a folder may have other files
      files.left_out.push_back(files.files[i]);
    else
      fail(
          WEFT_INVALID_ARGUMENT,
          "{}: the model learns labels, which come in tables (.csv, .tsv) and in files that end in {}: a row "
          "or line has \"{}\" and \"{}\"",
          files.shown(i), json_extensions(), reading_.columns.text, reading_.columns.label);
  }
  read_.sources.push_back(files);
  for (const size_t file : with_records) {
    has_any = true;
    read_file(files, file);
  }
  if (!has_any)
    fail(WEFT_NOT_FOUND,
         "{}: the model learns labels, but no file of the folder is a table or ends in {} (--data)", path,
         json_extensions());
  if (reading_.note && !files.left_out.empty()) reading_.note(line_of_left_out(files));
  if (reading_.note && broken_ > 0)
    reading_.note(fmt::format("{}: {} broken line{} skipped, the first one {}", path, broken_,
                              broken_ == 1 ? "" : "s", first_broken_));
  if (read_.rows.size() == before)
    fail(WEFT_INVALID_ARGUMENT, "{}: it has no rows{}", path,
         broken_ > 0 ? fmt::format(", all {} are broken: {}", broken_, first_broken_) : "");
}

void Reader::read_file(const TextFiles& files, size_t file) {
  const std::string shown = files.shown(file);
  const MappedFile mapped(files.path(file));
  for (const JsonStretch& stretch : record_stretches(mapped.bytes(), shown)) {
    Records records(mapped.bytes(), shown, stretch);
    for (bool more = true; more;) try {
        const std::optional<json> record = records.next();
        more = record.has_value();
        if (more) add(*record, records, file);
      } catch (const Error& error) {
        const std::string text = records.place(shown) + ": " + error.what();
        if (error.status() != WEFT_INVALID_ARGUMENT) throw Error(error.status(), text);
        if (!reading_.skip_broken_lines)
          throw Error(error.status(),
                      text + "; correct it, or leave out such lines with --skip-broken-lines");
        if (broken_++ == 0) first_broken_ = text;
      }
  }
}

void Reader::check_kind(const RowLabel& label, bool of_table) const {
  if (of_table || label.kind == Kind::kNone || !first_) return;
  if (label.is_list != first_->is_list)
    fail(WEFT_INVALID_ARGUMENT, "its label is {}, those before are {}",
         label.is_list ? "a list" : name_of(label.kind), first_->is_list ? "lists" : "none");
  if ((label.kind == Kind::kText) != (first_->kind == Kind::kText))
    fail(WEFT_INVALID_ARGUMENT, "its label \"{}\" is {}, those before are not: \"{}\"",
         printable(label.values.front(), 60), name_of(label.kind), printable(first_->values.front(), 60));
}

void Reader::add(const json& record, const Records& records, size_t file) {
  const RowColumns& columns = reading_.columns;
  LabelledRow row;
  if (columns.of_words) return add_words(record, records, file);
  row.text = text_in(column_of(record, columns.text, "--text-column"), columns.text.c_str());
  if (!columns.second_text.empty())
    row.second_text =
        text_in(column_of(record, columns.second_text, "--second-text-column"), columns.second_text.c_str());
  if (reading_.labels) {
    const json& value = column_of(record, columns.label, "--label-column");
    row.label = label_of(value, records.is_table(), columns.label);
    check_kind(row.label, records.is_table());
  }
  add_row(std::move(row), records, file);
}

void Reader::add_words(const json& record, const Records& records, size_t file) {
  const RowColumns& columns = reading_.columns;
  LabelledRow row;
  if (!record.contains(columns.words) && record.contains(columns.text)) {
    row.of_spans = true;
    row.text = text_in(record.at(columns.text), columns.text.c_str());
    if (reading_.labels) read_spans(column_of(record, "spans", "--tokens-column"), row);
    return add_row(std::move(row), records, file);
  }
  const json& words = column_of(record, columns.words, "--tokens-column");
  if (!words.is_array() || words.empty())
    fail(WEFT_INVALID_ARGUMENT, "\"{}\" is {}, must be a list of words", columns.words,
         words.is_array() ? "empty" : json_kind(words));
  for (const json& word : words) row.words.push_back(text_in(word, columns.words.c_str()));
  if (reading_.labels) {
    row.label = tags_of(column_of(record, columns.tags, "--tags-column"), columns.tags, row.words.size());
    check_kind(row.label, false);
  }
  add_row(std::move(row), records, file);
}

void Reader::add_row(LabelledRow row, const Records& records, size_t file) {
  if (!records.is_table() && !first_ && row.label.kind != Kind::kNone) first_ = row.label;
  const size_t source = read_.sources.size() - 1;
  const bool is_first = read_.rows.empty() || read_.rows.back().place.source != source;
  row.place = {source, file, records.offset(), records.element(),
               is_first ? 0 : read_.rows.back().place.index + 1};
  read_.rows.push_back(std::move(row));
  of_table_.push_back(records.is_table());
}

LabelledRows Reader::take() {
  // "1" in a table whose other labels are names is a name.
  const bool has_texts = std::any_of(read_.rows.begin(), read_.rows.end(),
                                     [](const LabelledRow& row) { return row.label.kind == Kind::kText; });
  for (size_t i = 0; i < read_.rows.size() && has_texts; ++i) {
    RowLabel& label = read_.rows[i].label;
    if (of_table_[i]) {
      label.kind = Kind::kText;
    } else if (label.kind == Kind::kInteger || label.kind == Kind::kReal) {
      fail(WEFT_INVALID_ARGUMENT, "{}: its label is {}, but those of a table are names",
           read_.text_of(read_.rows[i].place), label.values.front());
    }
  }
  return std::move(read_);
}

}  // namespace

std::string LabelledRows::name() const {
  std::vector<std::string> names;
  for (const TextFiles& source : sources) names.push_back(source.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string LabelledRows::text_of(const RowPlace& place) const {
  const TextFiles& files = sources[place.source];
  const MappedFile file(files.path(place.file));
  return place_of({{}, place.offset, place.element}, files.shown(place.file), file.bytes());
}

LabelledRows read_labelled_rows(const std::vector<std::string>& paths, const RowReading& reading) {
  Reader reader(reading);
  for (const std::string& path : paths) reader.read_source(path);
  return reader.take();
}

}  // namespace weft::data
