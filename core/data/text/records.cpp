#include "text/records.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "text/text_files.hpp"

namespace weft::data {

using nlohmann::json;

bool has_records(const std::string& file) {
  return has_json_lines(file) || has_table(file);
}

std::vector<JsonStretch> record_stretches(std::string_view content, const std::string& file, size_t bytes) {
  return has_table(file) ? table_stretches(content, file, bytes) : json_stretches(content, file, bytes);
}

Records::Records(std::string_view content, const std::string& file, const JsonStretch& stretch)
    : content_(content), json_(stretch) {
  if (!has_table(file)) return;
  table_.emplace(content, file);
  table_->seek(stretch.offset, stretch.offset + stretch.text.size());
}

std::optional<json> Records::next() {
  if (table_) {
    std::optional<TableRow> row;
    try {
      row = table_->next();
    } catch (const Error&) {
      record_ = {{}, table_->offset(), 0};
      throw;
    }
    if (!row) return std::nullopt;
    record_ = {{}, row->offset, 0};
    json object = json::object();
    for (size_t c = 0; c < row->fields.size(); ++c) object[table_->columns()[c]] = std::move(row->fields[c]);
    return object;
  }
  const std::optional<JsonRecord> record = json_.next();
  if (!record) return std::nullopt;
  record_ = *record;
  const bool is_line = record->element == 0;
  if (record->text.empty())
    fail(WEFT_INVALID_ARGUMENT, "it is empty: a comma has an element in front of it and one behind it");
  json object;
  try {
    object = parse_json(record->text, is_line ? "the line" : "counted from the begin of the element");
  } catch (const Error& error) {
    if (!is_line) throw;
    fail(error.status(), "{}; each line must be a whole object, or the file one array of objects",
         error.what());
  }
  if (!object.is_object()) fail(WEFT_INVALID_ARGUMENT, "it is {}, must be an object", json_kind(object));
  return object;
}

}  // namespace weft::data
