// Strings: conversions to and from the ABI, error messages, and the nearest name for "did you mean".
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <weft/types.h>
#include <weft/error.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

inline std::string_view view(weft_str text) {
  return text.size ? std::string_view(text.data, text.size) : "";
}
inline weft_str borrow(std::string_view text) {
  return {text.data(), text.size()};
}

// Throws Error with a text that is formatted as by fmt::format.
template <typename... Arguments>
[[noreturn]] void fail(weft_status status, fmt::format_string<Arguments...> format,
                       Arguments&&... arguments) {
  throw Error(status, fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Returns how many insertions, deletions, replacements and swaps of neighbours turn `a` into `b`. Ignores the
// case of ASCII letters.
size_t edit_distance(std::string_view a, std::string_view b);

// Returns the candidate that is nearest to `name`, if one is near enough to be a misspelling of it.
std::optional<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates);

// Returns `; did you mean "NAME"?`, or an empty string if no candidate is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

// Returns "a", "a or b" or "a, b or c".
std::string alternatives(const std::vector<std::string>& parts, std::string_view conjunction = "or");

std::vector<std::string> split(std::string_view text, char separator);  // empty parts are left out
std::string_view trim(std::string_view text);

// Returns true if `text` may be part of a path or an id: letters, digits and `_ - . +`, without a dot at the
// beginning.
bool is_plain_name(std::string_view text);

// Returns `text` for one line of a message: escapes control characters and truncates it to `limit` bytes.
std::string printable(std::string_view text, size_t limit = 200);

}  // namespace weft
