// The messages of this plugin. Every failure goes through fail().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "weft/error.hpp"

namespace weft::hugging_face {

inline void append_text(std::string& out, std::string_view part) {
  out += part;
}
template <typename T>
requires std::is_arithmetic_v<T>
void append_text(std::string& out, T number) {
  out += std::to_string(number);
}

template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (append_text(out, parts), ...);
  return out;
}

// Returns `text` in double quotes, with control characters escaped and at most 200 bytes of it, so that text
// of an untrusted file is safe to print.
std::string in_quotes(std::string_view text);

// Throws weft::Error. The text begins with the plugin's id.
template <typename... Parts>
[[noreturn]] void fail(weft_status status, const Parts&... parts) {
  throw Error(status, concat("hugging_face: ", parts...));
}

}  // namespace weft::hugging_face
