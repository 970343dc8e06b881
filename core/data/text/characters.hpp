// Places in a text, in characters (Unicode code points) and in bytes of UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::data {

// Returns the position of the first byte of a character, which its index among all characters names, or the
// size of the text.
inline size_t byte_of_character(std::string_view text, uint64_t index) {
  size_t at = 0;
  while (at < text.size() && index-- > 0) {
    ++at;
    while (at < text.size() && static_cast<unsigned char>(text[at]) >> 6 == 2) ++at;
  }
  return at;
}

// Returns how many characters begin in front of a byte.
inline int64_t characters_before(std::string_view text, size_t byte) {
  int64_t count = 0;
  for (const char each : text.substr(0, byte)) count += static_cast<unsigned char>(each) >> 6 != 2 ? 1 : 0;
  return count;
}

}  // namespace weft::data
