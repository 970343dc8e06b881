// Tables as text: rows of fields between commas or tabs, quoted as RFC 4180 says.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_records.hpp"

namespace weft::data {

// A row of a table.
struct TableRow {
  std::vector<std::string> fields;  // as many as there are columns
  size_t offset = 0;                // of its first byte in the file
};

// Reads a table whose first row has the names of its columns. Empty lines are left out, and so is a byte
// order mark. Errors are INVALID_ARGUMENT, without the place.
class Table {
 public:
  // `content` is the whole file; `file` its name, which decides what is between fields. Throws with FILE:1
  // for a file without a row, and for two columns of one name.
  Table(std::string_view content, const std::string& file);

  const std::vector<std::string>& columns() const { return columns_; }
  // Returns the index of a column, or nothing.
  std::optional<size_t> find(std::string_view column) const;
  // Goes to a row, which begins at `begin`, and reads up to `end`, where another one does.
  void seek(size_t begin, size_t end);
  // Returns the next row; nothing at the end. Throws for a row that is broken, and then goes on with the line
  // behind its first one; DATA_LOSS for a quote without an end, behind which there are no rows.
  std::optional<TableRow> next();
  // Returns where the last row begins that next() returned or refused.
  size_t offset() const { return begin_; }

 private:
  std::optional<TableRow> next_row();
  std::string take_field();
  std::string take_quoted();
  // Returns whether a field may end at this byte.
  bool ends_field(size_t at) const;
  [[noreturn]] void refuse(const std::string& text);

  const std::string_view content_;
  const char separator_;
  size_t at_ = 0, end_, begin_ = 0;
  std::vector<std::string> columns_;
};

// Divides a table into stretches of whole rows, of at least `bytes` each but for the last one. Throws like
// Table.
std::vector<JsonStretch> table_stretches(std::string_view content, const std::string& file, size_t bytes);

}  // namespace weft::data
