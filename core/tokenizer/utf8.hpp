// UTF-8: one code point after the other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft::tokenizer {

// Returns the code point at `at` of valid UTF-8 and moves `at` behind it.
inline char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const char32_t lead = byte(at);
  const size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t point = size == 1 ? lead : lead & (0x7Fu >> size);
  for (size_t i = 1; i < size; ++i) point = point << 6 | (byte(at + i) & 0x3Fu);
  at += size;
  return point;
}

// Returns the code point that ends before `at` and moves `at` to its first byte.
inline char32_t previous_code_point(std::string_view text, size_t& at) {
  do {
    --at;
  } while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  size_t end = at;
  return next_code_point(text, end);
}

void append_code_point(std::string& text, char32_t point);

// Returns how many bytes at the begin of `text`, which is not empty, are a well-formed code point (`valid`),
// or a maximal part of one that is ill-formed, which becomes one U+FFFD (Unicode 15, chapter 3.9).
struct Utf8Step {
  size_t size = 0;
  bool valid = false;
  bool cut_off = false;  // ill-formed only because the text ends
};
Utf8Step utf8_step(std::string_view text);

bool is_utf8(std::string_view text);
// Returns the text with U+FFFD for each maximal ill-formed part.
std::string repaired_utf8(std::string_view text);

}  // namespace weft::tokenizer
