// Text: views of the ABI's strings, lists for messages, nearest names for "did you mean".
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

// Throws Error with a text formatted as fmt::format does.
template <typename... Arguments>
[[noreturn]] void fail(weft_status status, fmt::format_string<Arguments...> format,
                       Arguments&&... arguments) {
  throw Error(status, fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`; ASCII letters match in
// any case.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `name`, if one is near enough to be what was meant.
std::optional<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates);

// `; did you mean "NAME"?`, or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

std::vector<std::string> split(std::string_view text, char separator);  // empty parts are left out
std::string_view trim(std::string_view text);

// True for names that may become part of a path or an id: letters, digits, `_ - . +`, not beginning with a
// dot.
bool is_plain_name(std::string_view text);

// `text` for one line of a message: control characters become escapes, more than `limit` bytes are cut.
std::string printable(std::string_view text, size_t limit = 200);

}  // namespace weft
