// The records of a JSON file: its lines or, where the file is one array, the elements of that array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::data {

struct JsonRecord {
  std::string_view text;  // without the white space around it
  size_t offset = 0;      // of its first byte in the file; of a line, where the line begins
  int64_t element = 0;    // its number in the array, from 1; 0: a line
};

// A stretch of a file that begins and ends between two records.
struct JsonStretch {
  std::string_view text;
  size_t offset = 0;          // in the file
  int64_t first_element = 0;  // the number of the element it begins with; 0: lines
};

// Returns whether the content of a file is one JSON array, that is, nothing follows its last bracket. Lines
// that are arrays are lines. Throws INVALID_ARGUMENT for an array whose end is missing, naming `file`.
bool is_json_array(std::string_view content, std::string_view file);

// Divides the content of a file into stretches of at least `bytes`, but for the last one. Throws like
// is_json_array().
std::vector<JsonStretch> json_stretches(std::string_view content, std::string_view file,
                                        size_t bytes = SIZE_MAX);

// Takes the records of a stretch one after the other; nothing at its end. Empty lines are left out.
class JsonRecords {
 public:
  explicit JsonRecords(const JsonStretch& stretch) : stretch_(stretch) {}
  std::optional<JsonRecord> next();

 private:
  std::optional<JsonRecord> next_line();

  const JsonStretch stretch_;
  size_t at_ = 0;
  int64_t taken_ = 0;
};

// Returns where a record is, for messages: "FILE:LINE" or "FILE:LINE: element NUMBER".
std::string place_of(const JsonRecord& record, std::string_view file, std::string_view content);

}  // namespace weft::data
