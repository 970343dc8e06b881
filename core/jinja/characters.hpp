// Characters of UTF-8: Jinja counts and cuts strings by code points.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace weft::jinja {

inline bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}
inline size_t num_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}
// Returns where the character that begins at `at` ends.
inline size_t next_character(std::string_view text, size_t at) {
  do ++at;
  while (at < text.size() && !begins_character(text[at]));
  return at;
}
// Returns the byte at which the character `index` begins, or the size of the text.
inline size_t byte_of_character(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at = next_character(text, at);
  return at;
}
// Returns how many bytes of the whitespace of Python's strip() stand at `at`; 0 if none.
size_t whitespace_at(std::string_view text, size_t at);

}  // namespace weft::jinja
