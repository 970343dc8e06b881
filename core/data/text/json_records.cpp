#include "text/json_records.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace weft::data {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf", kSpace = " \t\r\n";

int64_t line_of(std::string_view content, size_t offset) {
  const std::string_view before = content.substr(0, offset);
  return std::count(before.begin(), before.end(), '\n') + 1;
}

// Returns the position behind the text in quotes whose first quote is at `at`, or npos.
size_t end_of_text(std::string_view content, size_t at) {
  for (++at;; at += 2) {  // over what a backslash makes plain
    at = content.find_first_of("\"\\", at);
    if (at == content.npos) return at;
    if (content[at] == '"') return at + 1;
  }
}

// Returns where the element that begins at `at` ends: the position of the comma or of the bracket behind it,
// or npos. Does not look at more than quotes and brackets.
size_t end_of_element(std::string_view content, size_t at) {
  for (int64_t depth = 0;;) {
    at = content.find_first_of("\"[]{},", at);
    if (at == content.npos) return at;
    const char found = content[at];
    if (found == '"') {
      at = end_of_text(content, at);
      if (at == content.npos) return at;
      continue;
    }
    if (depth == 0 && (found == ',' || found == ']' || found == '}')) return at;
    if (found == '[' || found == '{') ++depth;
    if (found == ']' || found == '}') --depth;
    ++at;
  }
}

// Returns the position behind the bracket that begins an array, or npos where something else begins.
size_t begin_of_array(std::string_view content) {
  const size_t mark = content.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  const size_t first = content.find_first_not_of(kSpace, mark);
  return first != content.npos && content[first] == '[' ? first + 1 : content.npos;
}

// Returns the stretches of the array whose first element begins at `begin`; nothing if the file goes on
// behind the array, which is a line then.
std::vector<JsonStretch> stretches_of_array(std::string_view content, std::string_view file, size_t begin,
                                            size_t bytes) {
  std::vector<JsonStretch> stretches;
  JsonStretch next = {{}, begin, 1};
  for (int64_t element = 1;; ++element) {
    const size_t end = end_of_element(content, begin);
    if (end == content.npos)
      fail(WEFT_INVALID_ARGUMENT,
           "{}:{}: the array of the file has no end: its element {} is cut off, or a quote or a bracket is "
           "missing; complete the file",
           file, line_of(content, content.find_first_not_of(kSpace, begin)), element);
    const bool is_last = content[end] != ',';
    if (is_last || end - next.offset >= bytes) {
      next.text = content.substr(next.offset, end - next.offset);
      stretches.push_back(next);
      next = {{}, end + 1, element + 1};
    }
    begin = end + 1;
    if (!is_last) continue;
    if (element == 1 && trim(stretches.back().text).empty()) stretches.back() = {};  // as lines, none
    const bool is_whole = content[end] == ']' && trim(content.substr(begin)).empty();
    return is_whole ? stretches : std::vector<JsonStretch>();
  }
}

}  // namespace

bool is_json_array(std::string_view content, std::string_view file) {
  const size_t begin = begin_of_array(content);
  return begin != content.npos && !stretches_of_array(content, file, begin, SIZE_MAX).empty();
}

std::vector<JsonStretch> json_stretches(std::string_view content, std::string_view file, size_t bytes) {
  if (const size_t begin = begin_of_array(content); begin != content.npos) {
    std::vector<JsonStretch> stretches = stretches_of_array(content, file, begin, bytes);
    if (!stretches.empty()) return stretches;
  }
  std::vector<JsonStretch> stretches;
  for (size_t begin = 0; begin < content.size();) {
    const size_t least = content.size() - begin > bytes ? begin + bytes : content.size();
    const size_t end = std::min(content.find('\n', least), content.size() - 1) + 1;
    stretches.push_back({content.substr(begin, end - begin), begin, 0});
    begin = end;
  }
  return stretches;
}

std::optional<JsonRecord> JsonRecords::next() {
  if (stretch_.first_element == 0) return next_line();
  if (at_ > stretch_.text.size()) return std::nullopt;
  const size_t end = std::min(end_of_element(stretch_.text, at_), stretch_.text.size());
  const std::string_view element = stretch_.text.substr(at_, end - at_);
  const size_t space = std::min(element.find_first_not_of(kSpace), element.size());
  const JsonRecord record = {trim(element), stretch_.offset + at_ + space, stretch_.first_element + taken_++};
  at_ = end + 1;
  return record;
}

std::optional<JsonRecord> JsonRecords::next_line() {
  while (at_ < stretch_.text.size()) {
    const size_t end = std::min(stretch_.text.find('\n', at_), stretch_.text.size());
    const JsonRecord record = {trim(stretch_.text.substr(at_, end - at_)), stretch_.offset + at_, 0};
    at_ = end + 1;
    if (!record.text.empty()) return record;
  }
  return std::nullopt;
}

std::string place_of(const JsonRecord& record, std::string_view file, std::string_view content) {
  const std::string line = fmt::format("{}:{}", file, line_of(content, record.offset));
  return record.element == 0 ? line : fmt::format("{}: element {}", line, record.element);
}

}  // namespace weft::data
