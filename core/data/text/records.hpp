// The records of a file: the lines or elements of JSON, or the rows of a table.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_records.hpp"
#include "text/table.hpp"
#include "weft/error.hpp"

namespace weft::data {

// Returns whether the name of this file says that it has records.
bool has_records(const std::string& file);

// Divides the content of such a file into stretches of whole records, of at least `bytes` each but for the
// last one. Throws like json_stretches() and Table.
std::vector<JsonStretch> record_stretches(std::string_view content, const std::string& file,
                                          size_t bytes = SIZE_MAX);

// Takes the records of a stretch one after the other.
class Records {
 public:
  // `content` is the whole file, whose name decides what it has. Throws like Table.
  Records(std::string_view content, const std::string& file, const JsonStretch& stretch);

  // Returns the next record as an object, in which the fields of a row are texts under the names of their
  // columns; nothing at the end. Throws INVALID_ARGUMENT for a record that is broken, without its place, and
  // goes on behind it; like Table::next().
  std::optional<nlohmann::json> next();
  // Return the text of the last record of JSON, and of any file where that record is.
  std::string_view text() const { return record_.text; }
  size_t offset() const { return record_.offset; }
  int64_t element() const { return record_.element; }  // from 1; 0: a line or row
  bool is_table() const { return table_.has_value(); }
  // Returns "FILE:LINE" or "FILE:LINE: element NUMBER". `shown`: the name of the file.
  std::string place(std::string_view shown) const { return place_of(record_, shown, content_); }

 private:
  const std::string_view content_;
  JsonRecords json_;
  std::optional<Table> table_;
  JsonRecord record_;
};

// Runs `action`. Adds the place of the record to its errors.
template <class Action>
auto at_record(const Records& records, std::string_view shown, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw Error(error.status(), records.place(shown) + ": " + error.what());
  }
}

}  // namespace weft::data
