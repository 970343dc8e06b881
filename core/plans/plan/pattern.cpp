#include "plan/pattern.hpp"

#include <algorithm>
#include <cctype>

#include "base/text.hpp"

namespace weft::plan {
namespace {

constexpr size_t kLongestPattern = 4096;

[[noreturn]] void malformed(std::string_view text, std::string_view why) {
  fail(WEFT_INVALID_ARGUMENT,
       "pattern \"{}\" is malformed: {}; a pattern is like \"h.*.ln_[12], ln_f\": `*` is one component or a "
       "part of "
       "one, [12] one of these characters, commas separate several",
       printable(text), why);
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

// Checks the character class that begins at `open` and returns the index behind it.
size_t check_class(std::string_view text, std::string_view glob, size_t open) {
  const size_t close = glob.find(']', open);
  if (close == std::string_view::npos) malformed(text, "`[` is not closed");
  if (close == open + 1) malformed(text, "`[]` holds no character");
  for (const char c : glob.substr(open + 1, close - open - 1)) {
    if (c == '-') malformed(text, "`-` inside [] (ranges are not known, list the characters)");
    if (!is_name_character(c)) malformed(text, fmt::format("`{}` inside []", printable({&c, 1})));
  }
  return close + 1;
}

void check_glob(std::string_view text, std::string_view glob) {
  if (glob.empty()) malformed(text, text.empty() ? "it is empty" : "nothing stands on one side of a comma");
  bool component_is_empty = true;
  for (size_t i = 0; i < glob.size();) {
    const char c = glob[i];
    if (c == '.') {
      if (component_is_empty) malformed(text, "a component is empty");
      component_is_empty = true;
      ++i;
      continue;
    }
    component_is_empty = false;
    if (c == '[') {
      i = check_class(text, glob, i);
    } else if (c == '*') {
      if (i + 1 < glob.size() && glob[i + 1] == '*')
        malformed(text, "`**` (one `*` stays within one component)");
      ++i;
    } else if (is_name_character(c)) {
      ++i;
    } else {
      malformed(text, fmt::format("the character `{}`", printable({&c, 1})));
    }
  }
  if (component_is_empty) malformed(text, "it ends with a dot");
}

// Returns the end of the element of `glob` at `i`: a character, a class or `*`.
size_t element_end(std::string_view glob, size_t i) {
  return glob[i] == '[' ? glob.find(']', i) + 1 : i + 1;
}

bool element_matches(std::string_view element, char c) {
  return element.size() == 1 ? element[0] == c
                             : element.substr(1, element.size() - 2).find(c) != element.npos;
}

// Matches one component of a pattern with one of a path. Only the last `*` is tried again, so the time is at
// most the product of the lengths.
bool component_matches(std::string_view glob, std::string_view name) {
  size_t g = 0, n = 0, after_star = std::string_view::npos, star_name = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      after_star = ++g;
      star_name = n;
      continue;
    }
    const size_t end = g < glob.size() ? element_end(glob, g) : g;
    if (g < glob.size() && element_matches(glob.substr(g, end - g), name[n])) {
      g = end;
      ++n;
    } else if (after_star != std::string_view::npos) {
      g = after_star;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

}  // namespace

Pattern Pattern::parse(std::string_view text) {
  if (text.size() > kLongestPattern) malformed(text, fmt::format("longer than {} bytes", kLongestPattern));
  Pattern pattern;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view glob = trim(text.substr(begin, comma - begin));
    check_glob(text, glob);
    pattern.alternatives_.emplace_back(glob);
    begin = comma + 1;
  }
  return pattern;
}

bool Pattern::matches(std::string_view path) const {
  return std::any_of(alternatives_.begin(), alternatives_.end(),
                     [&](const std::string& glob) { return glob_matches(glob, path); });
}

std::string Pattern::text() const {
  return fmt::format("{}", fmt::join(alternatives_, ", "));
}

bool glob_matches(std::string_view glob, std::string_view path) {
  while (true) {
    const size_t glob_end = std::min(glob.find('.'), glob.size());
    const size_t path_end = std::min(path.find('.'), path.size());
    if (!component_matches(glob.substr(0, glob_end), path.substr(0, path_end))) return false;
    const bool last = glob_end == glob.size();
    if (last || path_end == path.size()) return last && path_end == path.size();
    glob.remove_prefix(glob_end + 1);
    path.remove_prefix(path_end + 1);
  }
}

}  // namespace weft::plan
