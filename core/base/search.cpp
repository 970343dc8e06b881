#include "base/search.hpp"

#include <cstring>

namespace weft {

size_t find_part(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* const found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  std::string result;
  size_t rest = 0;
  for (size_t at = find_part(text, what); at != std::string_view::npos; at = find_part(text, what, rest)) {
    result.append(text, rest, at - rest);
    result += with;
    rest = at + what.size();
  }
  if (rest > 0) text = result.append(text, rest);
}

}  // namespace weft
